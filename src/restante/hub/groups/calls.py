"""The functions and procedures that carry out the calls about groups."""

from __future__ import annotations

from restante.calls.groups import (
    DefineGroup,
    DeleteGroup,
    DropAction,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    PauseGroup,
    ReadGroup,
    ReadNext,
    ResetPosition,
    ResumeGroup,
    SendHeartbeat,
    WriteCheckpoint,
)
from restante.calls.shards import LearnGroups, MovePartitions, NotePosition, NoteWork, ReadPositions
from restante.hub.engine.procedures import Functions, Procedures, waiting
from restante.hub.groups import checkpoints, definitions, members, next_pages, shard_groups, status

PROCEDURES: Procedures = {
    DefineGroup: definitions.defining,
    DeleteGroup: definitions.deleting,
    PauseGroup: definitions.pausing,
    ResumeGroup: definitions.resuming,
    DropAction: definitions.dropping_action,
    JoinGroup: members.joining,
    LeaveGroup: members.leaving,
    WriteCheckpoint: checkpoints.checkpointing,
    ResetPosition: checkpoints.resetting,
    NotePosition: checkpoints.noting_position,
}

FUNCTIONS: Functions = {
    **waiting(PROCEDURES),
    ReadGroup: status.read_group,
    ListGroups: status.list_groups,
    SendHeartbeat: members.heartbeat,
    ReadNext: next_pages.read_next,
    LearnGroups: shard_groups.learn_groups,
    MovePartitions: shard_groups.move_partitions,
    ReadPositions: shard_groups.read_positions,
    NoteWork: members.note_work,
}
