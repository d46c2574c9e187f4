"""The functions that carry out the calls about removal."""

from __future__ import annotations

from restante.calls.removal import Erase, ExpireNow, Purge, Release, SetAside, Withdraw
from restante.hub.engine.core import Core
from restante.hub.engine.procedures import Functions
from restante.hub.removal import erase, expiry, removal
from restante.model.access.access import Grant


def withdraw(core: Core, call: Withdraw, _: Grant) -> None:
    removal.withdraw(core, core.address(call.recipient), call.message_id)


def set_aside(core: Core, call: SetAside, _: Grant) -> None:
    removal.set_aside(core, core.address(call.recipient), call.message_id)


def release(core: Core, call: Release, _: Grant) -> None:
    removal.release(core, core.address(call.recipient), call.message_id)


def erase_recipient(core: Core, call: Erase, _: Grant) -> int:
    return erase.erase(core, core.address(call.recipient), dry_run=call.dry_run)


def expire(core: Core, _: ExpireNow, __: Grant) -> int:
    return expiry.expire(core)


FUNCTIONS: Functions = {
    Withdraw: withdraw,
    SetAside: set_aside,
    Release: release,
    Purge: removal.purge,
    Erase: erase_recipient,
    ExpireNow: expire,
}
