"""A member in a process of its own: it notes every change that it handles, and ends when it is told to.

`python -m tests.groups.member_child URL GROUP NAME FILE`
"""

from __future__ import annotations

import os
import signal
import sys
import threading

import restante


def main(url: str, group: str, name: str, path: str) -> None:
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with restante.connect(url) as hub, hub.group(group, kinds=["k"], member=name, limit=20) as own:

        def leave(*_: object) -> None:
            threading.Thread(target=own.close).start()

        signal.signal(signal.SIGTERM, leave)
        for page in own.pages():
            for number in page.table["sequence_number"].to_pylist():
                os.write(log, b"%d %d %d\n" % (page.partition, page.generation, number))


if __name__ == "__main__":
    main(*sys.argv[1:])
