"""`PeerTrust`: by what nodes know one another: the secret of the cluster, and, if they have certificates, TLS on both sides."""

from __future__ import annotations

import logging
import ssl
from typing import NamedTuple, NoReturn

from restante.errors import InvalidSettings
from restante.model.access.open_access import is_loopback
from restante.settings import ClusterSettings

_log = logging.getLogger("restante.cluster")
_REMEDY = "Give each node a certificate (cluster.certificate_file), or keep them in a private network."
GOODBYE_SECONDS = 0.2
"""For the end of a connection in order. TLS says goodbye on both sides, and a loop that ends before that is left with its handles."""


class PeerTrust(NamedTuple):
    """The trust between nodes: what a node shows to others, and asks of them. The secret is proved inside of TLS, too."""

    secret: bytes
    calling: ssl.SSLContext | None = None
    called: ssl.SSLContext | None = None


class _Files(NamedTuple):
    certificate: str
    key: str
    authority: str


def peer_trust(secret: bytes, cluster: ClusterSettings) -> PeerTrust:
    """TLS if the settings name the files for it; `InvalidSettings` if they name some of them, or one cannot be used."""
    named = {
        "certificate_file": cluster.certificate_file,
        "key_file": cluster.key_file,
        "authority_file": cluster.authority_file,
    }
    missing = [f"cluster.{name}" for name, value in named.items() if value is None]
    if len(missing) == len(named):
        if not is_loopback(cluster.listen.rpartition(":")[0].strip("[]")):
            _log.warning("Nodes speak without encryption: who listens between them reads the mail. %s", _REMEDY)
        return PeerTrust(secret)
    if missing:
        raise InvalidSettings(f"TLS between nodes needs {' and '.join(missing)} too.")
    files = _Files(*(value for value in named.values() if value is not None))
    return PeerTrust(secret, _context(files, ssl.Purpose.SERVER_AUTH), _context(files, ssl.Purpose.CLIENT_AUTH))


def _context(files: _Files, other: ssl.Purpose) -> ssl.SSLContext:
    """For connections whose other end has this part. Both show a certificate of our authorities, and no older TLS than 1.3."""
    try:
        context = ssl.create_default_context(other, cafile=files.authority)
    except OSError as error:
        raise InvalidSettings(f"cluster.authority_file: {files.authority} cannot be used ({error}).") from error
    try:
        context.load_cert_chain(files.certificate, files.key, _no_passphrase)
    except OSError as error:
        raise InvalidSettings(
            f"cluster.certificate_file, cluster.key_file: {files.certificate} and {files.key} cannot be used ({error})."
        ) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _no_passphrase() -> NoReturn:
    raise InvalidSettings(
        "cluster.key_file: the key has a passphrase, and nobody is there to type it. Store it without."
    )
