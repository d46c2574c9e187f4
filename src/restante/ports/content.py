"""`OriginPort`: it fetches the content of claim-check messages from their origins, and notifies them of dequeued bundles."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class ContentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks an origin for the content of one bundle. The same bundle always asks under the same `request_id`."""

    request_id: str
    bundle_id: str
    recipient: str
    format: str
    message_ids: tuple[str, ...]


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The content that an origin delivered for a bundle."""

    data: bytes
    media_type: str = "application/octet-stream"


class DequeuedNotice(msgspec.Struct, frozen=True, kw_only=True):
    """Tells an origin that a bundle was dequeued; repeated under the same `request_id` until it is taken."""

    request_id: str
    bundle_id: str
    recipient: str
    message_ids: tuple[str, ...]


ContentFunction = Callable[[ContentRequest], Content]
NoticeFunction = Callable[[DequeuedNotice], None]


class OriginPort(msgspec.Struct, frozen=True, kw_only=True):
    """The functions by which one origin is reached. Without `content`, its messages must carry their data inline."""

    content: ContentFunction | None = None
    dequeued: NoticeFunction | None = None
