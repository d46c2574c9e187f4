"""`restante partitions`: how much each partition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from restante.cli.connecting import DEFAULT_URL, AsJson, DataFolder, Door, HubUrl, Token

if TYPE_CHECKING:
    from restante.client.surface import PartitionStatus


def partitions(
    hub: HubUrl = DEFAULT_URL, token: Token = None, data: DataFolder = None, as_json: AsJson = False
) -> None:
    """Show the partitions: the last visible number, what waits, and what is not filed yet.

    \b
    restante partitions                  of the hub on this machine
    restante partitions --data ./data    of a folder that no hub has open
    restante partitions --json
    """
    from restante.cli.showing import print_json

    with Door(hub, token, data).open() as opened:
        found = opened.partitions()
    if as_json:
        print_json({"partitions": found})
    else:
        _print(found)


def _print(found: tuple[PartitionStatus, ...]) -> None:
    from restante.cli.showing import counted, output, table_of

    headings = ("partition", "visible sequence", "waiting", "unfiled")
    rows = [
        (str(status.partition), f"{status.visible_sequence:,}", f"{status.waiting:,}", f"{status.unfiled:,}")
        for status in found
    ]
    console = output()
    console.print(table_of(headings, rows, right=headings))
    waiting = sum(status.waiting for status in found)
    console.print(f"{counted(waiting, 'message')} waiting in {counted(len(found), 'partition')}.")
