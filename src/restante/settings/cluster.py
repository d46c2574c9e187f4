"""The settings of a node: its name, where the others reach it, and the files by which they know one another."""

from __future__ import annotations

from restante.settings.rules import Section, like, path_of_file


class ClusterSettings(Section, frozen=True, kw_only=True):
    """Settings of a node of several on one database. Without a name the hub is alone."""

    node: str | None = None
    """The name of this node; no other one has it."""
    listen: str = "127.0.0.1:8472"
    """Where the other nodes reach this one: an address and a port of this machine."""
    advertise: str | None = None
    """The host name under which clients and the other nodes find this machine; by default the address it listens on."""
    secret_file: str | None = None
    """A file with the secret that all nodes share, and nothing else; or the variable RESTANTE_CLUSTER_SECRET has it."""
    certificate_file: str | None = None
    """The certificate of this node, in PEM, with those between it and the authority: nodes speak TLS then."""
    key_file: str | None = None
    """The private key of the certificate, in PEM and without a passphrase."""
    authority_file: str | None = None
    """The certificates, in PEM, of the authorities that have signed those of all nodes."""

    rules = {
        "node": like("letters, digits, dots and dashes, at most 63", r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}"),
        "listen": like("an address and a port, such as 0.0.0.0:8472", r"[A-Za-z0-9._:\[\]-]{1,255}:\d{1,5}"),
        "advertise": like("a host name or an IP address", r"[A-Za-z0-9._:-]{1,255}"),
        "secret_file": path_of_file(),
        "certificate_file": path_of_file(),
        "key_file": path_of_file(),
        "authority_file": path_of_file(),
    }
