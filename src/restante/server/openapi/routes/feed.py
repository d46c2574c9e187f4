"""The feed and snapshots, described."""

from __future__ import annotations

from restante.calls.feed import ReadFeed, ReadSnapshot
from restante.limits import FEED_BYTES_MAX, FEED_CHANGES_DEFAULT, FEED_CHANGES_MAX, MIB, READER_CHARACTERS_MAX
from restante.model.feed.feed import FEED_SCHEMA
from restante.model.mailboxes.message_tables import MESSAGE_SCHEMA
from restante.server.openapi.headers import PACKED
from restante.server.openapi.parts import (
    Answer,
    BodyContent,
    Operation,
    Parameter,
    QueryText,
    Subject,
    of_schema,
)
from restante.server.openapi.places import (
    PARTITION,
    READING,
    WAIT,
    after_text,
    query,
    texts,
)
from restante.server.openapi.schemas import ARROW, text
from restante.wire import media

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


def _wish(names: list[str]) -> tuple[Parameter, ...]:
    """The parameters that choose which changes or messages of a partition are shown, and with which columns."""
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
                text="A name for the reader: the metrics show its lag under this name.",
                form=text(READER_CHARACTERS_MAX, "1 to 64 characters, not blank."),
                example="warehouse",
            ),
        ),
    ),
    answers=(_answer("Changes, or none.", "ChangePage", "Restante-Next.feed", "Restante-Start", "Restante-End"),),
    problems=("partition_unknown", "position_gone", "position_ahead", "not_acceptable", *READING),
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
)
SUBJECT = Subject(
    name="Feed",
    text="Reading along: every change of a partition in order, and what is stored in it to begin with.",
    operations=(FEED, SNAPSHOT),
)
