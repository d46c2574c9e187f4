"""See the catalogue at work: a hub, the API and two workers until Ctrl-C. `make run-catalog`."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from examples.catalog.crew import Crew
from examples.catalog.serve import API_KEY, API_KEY_VARIABLE, interruptible

LOOK_SECONDS = 0.5


def hello(crew: Crew) -> str:
    key = os.environ.get(API_KEY_VARIABLE, API_KEY)
    lamp = (
        '{"id": "00000000-0000-4000-8000-000000000007", "name": "a lamp", "description": "It shines.", "price": 12.5}'
    )
    item = f"{crew.api_url}/catalogitem/00000000-0000-4000-8000-000000000007"
    return f"""
catalogue   {crew.api_url}/catalogitem
hub         {crew.hub_url}
workers     {len(crew.workers)}, process {", ".join(str(worker.pid) for worker in crew.workers)}
files       {crew.folder}

curl -i -X POST {crew.api_url}/catalogitem -H 'X-API-KEY: {key}' -d '{lamp}'
curl -i -X POST {item}/comments -d '{{"authorName": "ada", "text": "good"}}'
curl {item}/comments
restante groups show catalog --hub {crew.hub_url}

Ctrl-C ends all of it."""


def watch(crew: Crew) -> None:
    """Until Ctrl-C; a worker that ended is said once."""
    gone: set[int] = set()
    while True:
        time.sleep(LOOK_SECONDS)
        for worker in crew.workers:
            if worker.poll() is not None and worker.pid not in gone:
                gone.add(worker.pid)
                print(f"Worker {worker.pid} has ended with {worker.returncode}; the others go on.", flush=True)


def run(options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        stack.enter_context(interruptible())
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="catalog-")))
        crew = stack.enter_context(Crew(folder))
        try:
            crew.start(workers=options.workers, port=options.port)
            print(hello(crew), flush=True)
            watch(crew)
        except KeyboardInterrupt:
            print("\nThe workers end what they have begun; then the API and the hub end.", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the catalogue: a hub, the API and workers.")
    parser.add_argument("--folder", type=Path, help="where the files are kept; without it they are gone at the end")
    parser.add_argument("--port", type=int, default=0, help="the port of the API; 0 is a free one")
    parser.add_argument("--workers", type=int, default=2)
    run(parser.parse_args())
