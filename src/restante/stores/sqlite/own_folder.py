"""Whether a folder may become a data folder.

One that holds something else is somebody else's: a hub would put its files among those, and take the folder away from all
other users.
"""

from __future__ import annotations

from pathlib import Path

from restante.errors import InvalidRequest

_OURS = ("restante.db", "blobs", "log-0", "log-1")
"""Where one of these is, a hub was."""
_BESIDE = frozenset(
    {
        *("lock", "tokens.json", "tokens.json.lock", "origins.secret", "origins.secret.lock"),
        *("calls.sock", "requests.sock", "not_started.txt"),
        *("lost+found", ".gitignore", ".gitkeep", ".keep", ".DS_Store"),
    }
)
"""Files that may lie in a folder in which no hub has been yet."""


SEVERAL = "shards.json"
"""The file of a folder whose data lies in the folders of several shards."""
JOINED = "joined.new"
"""Where shards are joined, before they count."""


def require_own(folder: Path) -> None:
    """Refuse a folder that holds something else, and no data of a hub. Nothing is changed."""
    if (folder / SEVERAL).exists():
        raise InvalidRequest(
            f"{folder} is the data of several shards, which one process cannot open. Serve it: restante serve --data {folder}"
        )
    if not folder.is_dir() or any((folder / name).exists() for name in _OURS):
        return
    others = {path.name for path in folder.iterdir()} - _BESIDE
    if others:
        raise InvalidRequest(
            f"{folder} holds something else ({min(others)}) and no data of Restante. Name another folder, or a new one "
            "inside it."
        )
