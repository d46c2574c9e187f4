"""Reading answers of the hub that are columns: bundles, history, feed and snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from restante.client.transport.address import HubAddress
from restante.client.transport.exchange import Response
from restante.client.transport.http_answers import unreadable
from restante.errors import OriginDidNotDeliver
from restante.model.columns.arrow import strings_of
from restante.model.feed.feed_answers import FeedAnswer, SnapshotAnswer
from restante.model.mailboxes.answers import BundleAnswer, HistoryPage, Reason
from restante.model.mailboxes.few_rows import StoredLetter
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA, to_messages
from restante.wire.bundle_letters import decode_letters, split_texts
from restante.wire.media import LETTERS

_NOT_DELIVERED = "origin_did_not_deliver"
_REASONS = {reason.value: reason for reason in Reason}


def table_of(response: Response, address: HubAddress) -> pa.Table:
    """The table of an Arrow answer. Its columns use the received bytes, without a copy."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(response.body)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(address, str(error)) from error
    return table


def bundle_of(response: Response, recipient: str, address: HubAddress) -> BundleAnswer | Reason:
    """The bundle in the answer to a peek, or the reason why there is none."""
    headers = response.headers
    if response.status == 204:
        if headers.get("restante-empty-reason") == _NOT_DELIVERED:
            raise OriginDidNotDeliver(
                f"The origin of {recipient}'s bundle did not deliver its content in time. The bundle stays open: peek "
                "again later."
            )
        return _REASONS.get(headers.get("restante-empty-reason", ""), Reason.NOTHING_WAITING)
    claim_check = headers.get("restante-content") == "claim-check"
    few = _letters(response, address) if headers.get("content-type") == LETTERS else ()
    table = MESSAGE_SCHEMA.empty_table() if claim_check else None if few else table_of(response, address)
    try:
        return BundleAnswer(
            bundle_id=headers["restante-bundle-id"],
            recipient=recipient,
            origin=unquote(headers["restante-origin"]),
            kind=unquote(headers["restante-kind"]),
            document_types=_document_types(headers["restante-document-types"], table, few),
            message_count=int(headers["restante-message-count"]),
            columns=table,
            few=few,
            content=bytes(response.body) if claim_check else None,
            media_type=headers["content-type"] if claim_check else None,
        )
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise unreadable(address, f"a header of the bundle is missing or wrong: {error}") from error


def _letters(response: Response, address: HubAddress) -> tuple[StoredLetter, ...]:
    try:
        return decode_letters(response.body)
    except ValueError as error:
        raise unreadable(address, str(error)) from error


def history_of(response: Response, address: HubAddress) -> HistoryPage:
    following = None if "restante-next" not in response.headers else _number(response, "restante-next", address)
    table = table_of(response, address)
    try:
        return HistoryPage(messages=to_messages(table), next=following)
    except (pa.ArrowException, LookupError, ValueError, TypeError, OverflowError) as error:
        raise unreadable(address, f"its columns are not those of messages: {error}") from error


def feed_of(response: Response, address: HubAddress) -> FeedAnswer:
    """The changes of a partition in a feed answer."""
    return FeedAnswer(
        table=table_of(response, address),
        next=_number(response, "restante-next", address),
        start=_number(response, "restante-start", address),
        end=_number(response, "restante-end", address),
    )


def snapshot_of(response: Response, address: HubAddress) -> SnapshotAnswer:
    return SnapshotAnswer(
        table=table_of(response, address),
        next=response.headers.get("restante-next"),
        position=_number(response, "restante-position", address),
    )


def _number(response: Response, header: str, address: HubAddress) -> int:
    try:
        return int(response.headers[header])
    except (KeyError, ValueError) as error:
        raise unreadable(address, f"the header {header} is missing or wrong") from error


def _document_types(header: str, table: pa.Table | None, few: Sequence[StoredLetter]) -> tuple[str, ...]:
    """The distinct document types, in order. If they do not fit into the header, the body has them."""
    listed, whole = split_texts(header)
    if whole:
        return listed
    if table is None:
        return tuple(dict.fromkeys(own.letter.document_type for own in few))
    return tuple(strings_of(pc.unique(table.column("document_type").cast(pa.string())))) or listed
