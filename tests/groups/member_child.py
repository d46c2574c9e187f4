"""A member in a process of its own: it notes every change that it handles, and ends when it is told to.

`python -m tests.groups.member_child URL GROUP NAME FILE [insistent]`; one that is insistent joins again whatever ended it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import restante
from restante.client.groups.groups_sync import Group
from restante.errors import RestanteError
from tests.groups.group_world import numbers_in


def main(url: str, group: str, name: str, path: str, how: str = "") -> None:
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        try:
            with restante.connect(url) as hub:
                read(hub.group(group, kinds=["k"], member=name, limit=20), log)
        except RestanteError:
            if how != "insistent":
                raise
            time.sleep(0.1)
        else:
            return


def read(group: Group, log: int) -> None:
    with group as own:

        def leave(*_: object) -> None:
            threading.Thread(target=own.close).start()

        signal.signal(signal.SIGTERM, leave)
        for page in own.pages():
            for number in numbers_in(page.table):
                os.write(log, b"%d %d %d\n" % (page.partition, page.generation, number))


if __name__ == "__main__":
    main(*sys.argv[1:])
