"""The doctor on groups: whether what is stored of each can be, and fits the partitions."""

from __future__ import annotations

from restante import limits
from restante.errors import DataDamaged, RestanteError
from restante.hub.doctor.doctor_findings import Case
from restante.hub.doctor.doctor_mailboxes import examine_entries
from restante.model.groups.group import GroupRow, decode_group
from restante.model.groups.group_names import check_actions, check_group
from restante.model.groups.group_position import decode_position
from restante.model.groups.membership import decode_member, key_group
from restante.model.shards.group_parts import decode_copy
from restante.model.storage.changes import Space

_ID_BYTES = 16


def examine_groups(case: Case) -> None:
    """The rows of one partition: groups and members whose home it is, and positions of all groups in it."""
    examine_entries(case, Space.GROUP, "group", _group)
    examine_entries(case, Space.GROUP_MEMBER, "member of a group", _member)

    def position(key: bytes, value: bytes) -> None:
        check_group(key.decode())
        row = decode_position(value)
        if row.generation < 0 or len(row.holder) not in (0, _ID_BYTES):
            raise DataDamaged(f"Generation {row.generation} of {len(row.holder)} bytes of a member makes no sense.")
        if not 0 <= row.position <= case.counters.visible:
            raise DataDamaged(f"Its position {row.position} is not within 0 and {case.counters.visible}.")

    examine_entries(case, Space.GROUP_POSITION, "position of a group", position)
    examine_entries(case, Space.GROUP_COPY, "copy of a group", _copy)


def _copy(key: bytes, value: bytes) -> None:
    row = decode_copy(value).row
    if row is not None:
        _check(key, row)


def _group(key: bytes, value: bytes) -> None:
    _check(key, decode_group(value))


def _check(key: bytes, row: GroupRow) -> None:
    try:
        check_group(row.name)
        check_actions(row.actions)
    except RestanteError as error:
        raise DataDamaged(error.message) from error
    if key != row.name.encode():
        raise DataDamaged(f"Its key is not its name, {row.name!r}.")


def _member(key: bytes, value: bytes) -> None:
    member = decode_member(value)
    if len(member.member_id) != _ID_BYTES or not key.endswith(b"\x00" + member.member_id):
        raise DataDamaged("Its key has not its id.")
    if not key_group(key) or len(member.name) > limits.MEMBER_CHARACTERS_MAX:
        raise DataDamaged("Its name, or that of its group, makes no sense.")
