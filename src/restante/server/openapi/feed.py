"""The feed and snapshots, described."""

from __future__ import annotations

from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.limits import FEED_BYTES_MAX, FEED_CHANGES_DEFAULT, FEED_CHANGES_MAX, MIB, READER_CHARACTERS_MAX
from restante.model.feed.feed import FEED_SCHEMA
from restante.model.mailboxes.outtake import MESSAGE_SCHEMA
from restante.server.openapi.collecting import FIRST_SHOWN, PRECISE_TIME, SECOND_SHOWN
from restante.server.openapi.headers import PACKED
from restante.server.openapi.parts import (
    Answer,
    BodyContent,
    Example,
    Operation,
    Parameter,
    QueryText,
    Subject,
    of_schema,
)
from restante.server.openapi.places import (
    BUNDLE_ID,
    MESSAGE_ID,
    PARTITION,
    READING,
    SECOND_ID,
    WAIT,
    after_text,
    texts,
)
from restante.server.openapi.query import query
from restante.server.openapi.schemas import ARROW, text
from restante.wire import media

_FEED = "/v1/partitions/7/feed"
_SNAPSHOT = "/v1/partitions/7/snapshot"
_ORIGIN = texts("origin", "Only these origins. May be given several times.", example="billing")
_KIND = texts("kind", "Only these kinds. May be given several times.", example="invoice")
_RECIPIENT = texts("recipient", "Only these recipients. May be given several times.", example="alice")
_LIMIT = QueryText(
    text=(
        f"How many, {FEED_CHANGES_DEFAULT:,} if left out; more than {FEED_CHANGES_MAX:,} is clipped. An answer also "
        f"ends at {FEED_BYTES_MAX // MIB} MiB as it is sent."
    ),
    example=1_000,
)
_ABOUT = {"recipient": "alice", "origin": "billing", "kind": "invoice"}


def _unknown(name: str) -> Example:
    return Example(
        name=f"{name}-unknown",
        text="There is no such partition.",
        target=f"/v1/partitions/16/{name}",
        status=404,
        code="partition_unknown",
    )


def _wish(names: list[str]) -> tuple[Parameter, ...]:
    """What is shown of a partition, and of whom."""
    columns = Parameter(
        name="columns",
        text=(
            "Only these columns; `sequence_number` comes always, and in the feed `change`. May be given several times, or "
            "once with commas between. What nobody asks for is not read."
        ),
        schema={"type": "array", "items": {"enum": names}},
        example=[names[4]],
    )
    return _ORIGIN, _KIND, _RECIPIENT, columns


def _published(shown: dict[str, object]) -> dict[str, object]:
    """The change by which a message came, from the message as it is shown."""
    left_out = {"published_at", "state", *(("properties",) if not shown["properties"] else ())}
    kept = {name: value for name, value in shown.items() if name not in left_out}
    more = {"change": "published", "at": PRECISE_TIME, "message_sequence_number": shown["sequence_number"]}
    return kept | more


def _collected(message_id: str, number_of_message: int) -> dict[str, object]:
    change = {"sequence_number": 3, "change": "collected", "at": PRECISE_TIME, "bundle_id": BUNDLE_ID}
    return {**change, **_ABOUT, "id": message_id, "message_sequence_number": number_of_message}


def _answer(description: str, schema: str, *headers: str) -> Answer:
    return Answer(
        status=200,
        text=description,
        contents=(
            BodyContent(media_type=media.JSON, schema=of_schema(schema)),
            BodyContent(media_type=media.ARROW, schema=ARROW),
        ),
        headers=(*headers, "Cache-Control", *PACKED),
    )


FEED = Operation(
    method="GET",
    path="/v1/partitions/{partition}/feed",
    name="readFeed",
    summary="Read the changes of a partition",
    text="""
Everything that happened, by number. `after` is the number up to which the caller has read: the header `Restante-Next`
of one answer is the `after` of the next. An answer may be empty and yet lead on, if nothing in the stretch that was
looked at fits. With `wait`, a call at the end is answered as soon as something comes.

A `published` change has the fields of the message. `collected`, `expired`, `withdrawn`, `set_aside` and `released` have
one entry for each message, all with the `sequence_number` of the change; `message_sequence_number` says which message.
A message that is `released` to the end comes with all its fields, and lives on under the number of the change.
`batch_completed` has `batch` and `key`; it is left out if origins, kinds or recipients are asked for. `erased` has
the recipient, of whom nothing is left up to `message_sequence_number`, and `messages`, how many they were.

A number that retention has removed is `position_gone`: begin again with a snapshot. One beyond the end is
`position_ahead`: an older backup was restored, and to go on from there would skip what comes.
""",
    parameters=(
        PARTITION,
        *query(
            ReadFeed,
            after=QueryText(text="Only changes beyond this number; from the start if left out.", example=1),
            wish=_wish(FEED_SCHEMA.names),
            limit=_LIMIT,
            wait=WAIT,
            reader=QueryText(
                text="A name for who reads: the metrics tell how far behind it is.",
                form=text(READER_CHARACTERS_MAX, "1 to 64 characters, not blank."),
                example="warehouse",
            ),
        ),
    ),
    answers=(_answer("Changes, or none.", "ChangePage", "Restante-Next.feed", "Restante-Start", "Restante-End"),),
    problems=("partition_unknown", "position_gone", "position_ahead", "not_acceptable", *READING),
    examples=(
        Example(
            name="feed",
            text="Two messages were published.",
            target=_FEED,
            status=200,
            answer={"changes": [_published(FIRST_SHOWN), _published(SECOND_SHOWN)]},
            answer_headers={"Restante-Next": "2", "Restante-Start": "1", "Restante-End": "2"},
            after=("publish",),
        ),
        Example(
            name="feed-collected",
            text="They were collected since.",
            target=f"{_FEED}?after=2&reader=warehouse",
            status=200,
            answer={"changes": [_collected(MESSAGE_ID, 1), _collected(SECOND_ID, 2)]},
            answer_headers={"Restante-Next": "3"},
            after=("publish", "peek", "dequeue"),
        ),
        Example(
            name="feed-columns",
            text="Only what, and for whom.",
            target=f"{_FEED}?limit=1&columns=recipient,kind",
            status=200,
            answer={
                "changes": [{"sequence_number": 1, "change": "published", "recipient": "alice", "kind": "invoice"}]
            },
            answer_headers={"Restante-Next": "1", "Restante-End": "2"},
            after=("publish",),
        ),
        Example(
            name="feed-arrow",
            text="As an Arrow stream.",
            target=_FEED,
            headers={"Accept": media.ARROW},
            status=200,
            after=("publish",),
        ),
        Example(
            name="feed-end",
            text="Nothing new.",
            target=f"{_FEED}?after=2",
            status=200,
            answer={"changes": []},
            answer_headers={"Restante-Next": "2", "Restante-End": "2"},
            after=("publish",),
        ),
        Example(
            name="feed-ahead",
            text="Beyond the end: an older backup was restored.",
            target=f"{_FEED}?after=9",
            status=409,
            code="position_ahead",
            after=("publish",),
        ),
        Example(
            name="feed-no-column",
            text="There is no such column.",
            target=f"{_FEED}?columns=colour",
            status=400,
            code="invalid_request",
        ),
        _unknown("feed"),
    ),
)
SNAPSHOT = Operation(
    method="GET",
    path="/v1/partitions/{partition}/snapshot",
    name="readSnapshot",
    summary="Read what is stored in a partition",
    text="""
All messages as of one moment, in whatever state, in pages, for a reader who comes late: read the pages, then the feed
after `Restante-Position`, and nothing is missing and nothing is there twice. Publishing goes on meanwhile. `after` is
the header `Restante-Next` of the page before, with the same wishes; the last page has none.

With `position` it is as of that earlier moment, so a snapshot that broke off can be read again from its start. It has
what the first reading had, less the messages that retention or erasing took since. A position from which the feed can
no longer go on is `position_gone`.
""",
    parameters=(
        PARTITION,
        *query(
            ReadSnapshot,
            after=after_text("40-2"),
            position=QueryText(
                text=(
                    "As of this number, which must not lie beyond the end; as of now if left out. With `after`: that of "
                    "its page."
                ),
                example=2,
            ),
            wish=_wish(MESSAGE_SCHEMA.names),
            limit=_LIMIT,
        ),
    ),
    answers=(_answer("A page.", "SnapshotPage", "Restante-Position", "Restante-Next.token?"),),
    problems=("partition_unknown", "position_gone", "not_acceptable", *READING),
    examples=(
        Example(
            name="snapshot",
            text="Two messages wait.",
            target=_SNAPSHOT,
            status=200,
            answer={"messages": [FIRST_SHOWN, SECOND_SHOWN], "next": None},
            answer_headers={"Restante-Position": "2"},
            after=("publish",),
        ),
        Example(
            name="snapshot-arrow",
            text="As an Arrow stream.",
            target=_SNAPSHOT,
            headers={"Accept": media.ARROW},
            status=200,
            after=("publish",),
        ),
        Example(
            name="snapshot-position",
            text="As it was after the first message.",
            target=f"{_SNAPSHOT}?position=1",
            status=200,
            answer={"messages": [FIRST_SHOWN], "next": None},
            answer_headers={"Restante-Position": "1"},
            after=("publish",),
        ),
        Example(
            name="snapshot-position-beyond",
            text="There is no such position yet.",
            target=f"{_SNAPSHOT}?position=3",
            status=400,
            code="invalid_request",
            after=("publish",),
        ),
        Example(
            name="snapshot-token",
            text="Not the token of a page.",
            target=f"{_SNAPSHOT}?after=nonsense",
            status=400,
            code="invalid_request",
        ),
        _unknown("snapshot"),
    ),
)
SUBJECT = Subject(
    name="Feed",
    text="Reading along: every change of a partition in order, and what is stored in it to begin with.",
    operations=(FEED, SNAPSHOT),
)
