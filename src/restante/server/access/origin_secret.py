"""The secret that signs calls to origins which have none of their own, in the file `origins.secret` of a data folder.

It is made when it is first needed, and stays. Those who can read the data folder can read it; nobody else can.
"""

from __future__ import annotations

import os
from pathlib import Path

from restante.errors import DataDamaged
from restante.model.batches.webhook_rules import new_secret, secret_text
from restante.server.access.private_file import content_of, locked, replace
from restante.settings_texts import secret_bytes

FILE_NAME = "origins.secret"
_BYTES_MAX = 1_024


def origin_secret(folder: Path) -> bytes:
    """The secret of a data folder, made if there is none."""
    path = folder / FILE_NAME
    with locked(path):
        content = content_of(path, bytes_max=_BYTES_MAX)
        if content is None:
            content = secret_text(new_secret(os.urandom)).encode() + b"\n"
            replace(path, content)
    secret = secret_bytes(content.decode(errors="replace").strip())
    if secret is None:
        raise DataDamaged(
            f"{path.name} holds no secret. Remove the file; the hub then makes a new secret, which the origins need."
        )
    return secret
