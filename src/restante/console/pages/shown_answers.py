"""Answers of the hub, as the pages read them: only what they show, so that a newer hub may say more."""

from __future__ import annotations

from datetime import datetime

import msgspec


class ShownMeasure(msgspec.Struct, frozen=True):
    name: str
    value: float
    unit: str
    yellow: float
    red: float
    state: str
    reason: str | None = None


class ShownNode(msgspec.Struct, frozen=True):
    """A node of the health tree."""

    name: str
    state: str
    since: datetime
    score: float | None = None
    measured: bool | None = None
    parts: tuple[ShownNode, ...] = ()
    measures: tuple[ShownMeasure, ...] = ()


class ShownMinute(msgspec.Struct, frozen=True):
    at: datetime
    state: str
    score: float
    yellow: tuple[str, ...] = ()
    red: tuple[str, ...] = ()


class ShownHealth(ShownNode, frozen=True):
    history: tuple[ShownMinute, ...] = ()


class ShownRates(msgspec.Struct, frozen=True):
    """The last hour as columns."""

    seconds: float = 5.0
    at: list[float] = []
    accepted: list[int] = []
    collected: list[int] = []
    waiting: list[int] = []
    commits: list[int] = []
    commit_ms: list[float | None] = []
    requests: list[int] = []
    request_ms: list[float | None] = []
    failures: list[int] = []
    connections: list[int] = []


class ShownRecipient(msgspec.Struct, frozen=True):
    recipient: str
    waiting: int
    oldest: datetime
    partition: int


class ShownRecipients(msgspec.Struct, frozen=True):
    recipients: tuple[ShownRecipient, ...]
    next: str | None = None


class ShownPartition(msgspec.Struct, frozen=True):
    partition: int
    visible_sequence: int
    waiting: int
    unfiled: int
    owner: str = ""


class ShownPartitions(msgspec.Struct, frozen=True):
    partitions: tuple[ShownPartition, ...]
    next: str | None = None


class ShownHubNode(msgspec.Struct, frozen=True):
    """A node: a running hub, one of several or the only one."""

    node: str
    since: datetime
    address: str | None = None
    state: str = "serving"
    version: str = ""
    settings: str = ""


class ShownShard(msgspec.Struct, frozen=True):
    shard: int
    first: int
    last: int
    node: str | None
    state: str
    fence: int = 0
    reason: str | None = None
    lease_seconds: float | None = None


class ShownNodeMap(msgspec.Struct, frozen=True):
    nodes: tuple[ShownHubNode, ...]
    shards: tuple[ShownShard, ...]


class ShownRound(msgspec.Struct, frozen=True):
    consignment: str
    state: str
    shard: int
    messages: int
    since: datetime
    advice: str


class ShownRounds(msgspec.Struct, frozen=True):
    rounds: tuple[ShownRound, ...]


class ShownPlace(msgspec.Struct, frozen=True):
    partition: int
    owner: str


class ShownLine(msgspec.Struct, frozen=True):
    """A message without its data, as lists show it."""

    recipient: str
    id: str
    origin: str
    kind: str
    document_type: str = ""
    weight: int = 0
    bundleable: bool = True
    media_type: str | None = None
    properties: dict[str, str] = {}
    expires_at: datetime | None = None
    sequence_number: int | None = None
    published_at: datetime | None = None
    collected_at: datetime | None = None
    state: str = ""
    published_sequence_number: int | None = None


class ShownMessage(ShownLine, frozen=True):
    """A message; its data as the JSON that it came in."""

    data: msgspec.Raw = msgspec.Raw()
    """JSON as it came; empty where the data is given otherwise."""
    text: str | None = None
    data_base64: bytes | None = None


class ShownHistory(msgspec.Struct, frozen=True):
    messages: tuple[ShownLine, ...]
    next: int | None = None


class ShownSetting(msgspec.Struct, frozen=True):
    key: str
    value: object
    source: str


class ShownSettings(msgspec.Struct, frozen=True):
    settings: tuple[ShownSetting, ...]


class ShownClient(msgspec.Struct, frozen=True):
    recipient: str
    client: str
    connected_at: datetime
    queued: int
    sent: int
    dropped: int
    replaying: bool


class ShownClients(msgspec.Struct, frozen=True):
    clients: tuple[ShownClient, ...]
    next: str | None = None


class ShownToken(msgspec.Struct, frozen=True):
    id: str
    state: str
    roles: tuple[str, ...]
    origins: tuple[str, ...] | None
    recipients: tuple[str, ...] | None
    groups: tuple[str, ...] | None
    note: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class ShownTokens(msgspec.Struct, frozen=True):
    tokens: tuple[ShownToken, ...]
    next: str | None = None
