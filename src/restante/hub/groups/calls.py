"""The calls about groups, carried out."""

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
from restante.hub.engine.functions import Functions
from restante.hub.groups import checkpoints, definitions, members, next_pages, shard_groups, status

FUNCTIONS: Functions = {
    DefineGroup: definitions.define,
    ReadGroup: status.read_group,
    ListGroups: status.list_groups,
    DeleteGroup: definitions.delete,
    JoinGroup: members.join,
    LeaveGroup: members.leave,
    SendHeartbeat: members.heartbeat,
    ReadNext: next_pages.read_next,
    WriteCheckpoint: checkpoints.checkpoint,
    ResetPosition: checkpoints.reset_position,
    PauseGroup: definitions.pause,
    ResumeGroup: definitions.resume,
    DropAction: definitions.drop_action,
    LearnGroups: shard_groups.learn_groups,
    MovePartitions: shard_groups.move_partitions,
    ReadPositions: shard_groups.read_positions,
    NotePosition: checkpoints.note_position,
    NoteWork: members.note_work,
}
