"""Content by claim check: the origin is asked for it, and its answer is stored with the bundle.

The bundle is opened before the origin is asked. Peeks that come meanwhile wait for the same answer. If the origin fails or
takes too long, the bundle stays open, and the next peek asks again, under the same request id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec
import xxhash

from restante import limits
from restante.decoders import packed_decoder
from restante.errors import DataDamaged, OriginDidNotDeliver, RestanteError
from restante.hub.engine.core import Core, MailboxAddress, uuid_text
from restante.hub.engine.plan import RequestDraft
from restante.hub.mailboxes.origins import Origins
from restante.hub.mailboxes.outbox import message_ids
from restante.hub.mailboxes.peek import OpenedBundle
from restante.model.mailboxes.bundle import decode_bundle, encode_bundle
from restante.model.storage.changes import BlobKey, Space
from restante.model.storage.keys import bundle_key
from restante.ports.content import Content, ContentFunction, ContentRequest


class ContentRow(msgspec.Struct, frozen=True, array_like=True):
    """The stored content of a bundle: its blobs with their lengths and checksums."""

    blobs: tuple[int, ...]
    lengths: tuple[int, ...]
    checks: tuple[int, ...]
    media_type: str


def content_of(core: Core, address: MailboxAddress, bundle: OpenedBundle) -> Content:
    """The content of a claim-check bundle, from the store or from its origin."""
    key = bundle_key(address.hash, address.recipient, bundle.bundle_id)
    questions = core.memory(Origins).questions
    return _kept(core, address, key) or questions.once(key, lambda: _fetch(core, address, bundle, key))


def _fetch(core: Core, address: MailboxAddress, bundle: OpenedBundle, key: bytes) -> Content:
    """Ask for the content and store it, unless it has been stored since the caller looked."""
    kept = _kept(core, address, key)
    if kept is not None:
        return kept
    content = _ask(core, address, bundle, key)
    core.commit(lambda draft: _keep(draft, address, key, content))
    return content


def _kept(core: Core, address: MailboxAddress, key: bytes) -> Content | None:
    value = core.store.get(address.partition, Space.CONTENT, key)
    return None if value is None else _read(core, address.partition, packed_decoder(ContentRow).decode(value))


def _read(core: Core, partition: int, row: ContentRow) -> Content:
    parts = []
    for number, length, check in zip(row.blobs, row.lengths, row.checks, strict=True):
        part = bytes(core.store.read_blob(BlobKey(partition, number), 0, length))
        if xxhash.xxh3_64_intdigest(part) != check:
            raise DataDamaged(f"The content in blob {number} of partition {partition} fails its checksum.", blob=number)
        parts.append(part)
    return Content(data=b"".join(parts), media_type=row.media_type)


def _keep(draft: RequestDraft, address: MailboxAddress, key: bytes, content: Content) -> None:
    """Store the content with its bundle, unless the bundle is gone, because its recipient was erased meanwhile."""
    if draft.get(address.partition, Space.BUNDLE, key) is None:
        return
    if draft.get(address.partition, Space.CONTENT, key) is not None:
        return
    size = limits.BLOB_BYTES_MAX
    parts: Sequence[bytes] = [content.data[at : at + size] for at in range(0, len(content.data), size)]
    blobs = [draft.take_blob(address.partition) for _ in parts]
    draft.blobs.extend((blob, [part]) for blob, part in zip(blobs, parts, strict=True))
    row = ContentRow(
        tuple(blob.number for blob in blobs),
        tuple(len(part) for part in parts),
        tuple(xxhash.xxh3_64_intdigest(part) for part in parts),
        content.media_type,
    )
    draft.put(address.partition, Space.CONTENT, key, msgspec.msgpack.encode(row))


def _ask(core: Core, address: MailboxAddress, bundle: OpenedBundle, key: bytes) -> Content:
    row = bundle.row
    port = core.memory(Origins).ports.get(row.origin)
    request = ContentRequest(
        request_id=uuid_text(row.request_id),
        bundle_id=uuid_text(bundle.bundle_id),
        recipient=row.recipient,
        format=row.format,
        message_ids=message_ids(core, address, row),
    )
    try:
        if port is None or port.content is None:
            raise OriginDidNotDeliver(f"Origin {row.origin!r} has no content function any more. Configure it again.")
        content = _in_time(port.content, request, core.memory(Origins).content_seconds)
        if len(content.data) > limits.CONTENT_BYTES_MAX:
            raise OriginDidNotDeliver(
                f"Origin {row.origin!r} delivered {len(content.data)} bytes; at most {limits.CONTENT_BYTES_MAX} are allowed."
            )
    except OriginDidNotDeliver:
        core.memory(Origins).count(failed=True)
        _note_failure(core, address, key, core.clock())
        raise
    core.memory(Origins).count(failed=False)
    return content


def _note_failure(core: Core, address: MailboxAddress, key: bytes, now: int) -> None:
    """Record in the bundle that its origin failed, for explain."""

    def plan(draft: RequestDraft) -> None:
        value = draft.get(address.partition, Space.BUNDLE, key)
        if value is not None:
            row = msgspec.structs.replace(decode_bundle(value), undelivered_at=now)
            draft.put(address.partition, Space.BUNDLE, key, encode_bundle(row))

    core.commit(plan)


def _in_time(function: ContentFunction, request: ContentRequest, seconds: float) -> Content:
    """Call the origin in a separate thread. A call that takes too long is abandoned."""
    outcome: list[Content | BaseException] = []
    arguments = (function, request, outcome.append)
    thread = threading.Thread(target=_call, args=arguments, name="restante-origin", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise OriginDidNotDeliver(f"The origin did not deliver within {seconds:g} s. Peek again.")
    result = outcome[0]
    if isinstance(result, BaseException):
        detail = result.message if isinstance(result, RestanteError) else f"{result!r}."
        raise OriginDidNotDeliver(f"The origin failed to deliver: {detail} Peek again.") from result
    return result


def _call(function: ContentFunction, request: ContentRequest, put: Callable[[Content | BaseException], None]) -> None:
    try:
        put(function(request))
    except BaseException as error:  # noqa: BLE001  # handed to the caller's thread
        put(error)
