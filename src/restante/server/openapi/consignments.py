"""Consignments, described."""

from __future__ import annotations

from restante.calls.consignments import ListConsignments, StageParcel
from restante.limits import WRITER_CHARACTERS_MAX
from restante.server.openapi.parts import (
    Answer,
    BodyContent,
    Example,
    Operation,
    QueryText,
    Subject,
    of_schema,
)
from restante.server.openapi.places import (
    CONSIGNMENT,
    CONSIGNMENT_ID,
    KEY,
    LIMIT,
    OTHER_ID,
    READING,
    STATE,
    WRITING,
    after_id,
)
from restante.server.openapi.publishing import BODIES, BODY_HEADERS, BODY_TEXT, INVOICE, SECOND
from restante.server.openapi.query import query
from restante.server.openapi.schemas import text
from restante.wire import media

_TIME = "2030-01-31T12:00:00Z"
_JSON = {"Content-Type": media.JSON}
_BODY_PROBLEMS = ("body_too_large", "unsupported_media_type", *WRITING)
_ONE = f"/v1/consignments/{CONSIGNMENT_ID}"
_OPENED = {"id": CONSIGNMENT_ID, "key": "night-run-7", "state": "open"}
_RECEIPT = {
    "accepted": 2,
    "duplicates": 0,
    "partitions": [{"partition": 7, "first_sequence_number": 1, "last_sequence_number": 2}],
}
_WINNER = {"writer": "task-1", "attempt": 0, "messages": 2}
_STAGED = ("consignment-open", "consignment-stage")
_COMMITTED = (*_STAGED, "consignment-commit")


def _json(status: int, description: str, schema: str, *headers: str) -> Answer:
    return Answer(
        status=status,
        text=description,
        contents=(BodyContent(media_type=media.JSON, schema=of_schema(schema)),),
        headers=headers,
    )


def _shown(**known: object) -> dict[str, object]:
    """The consignment of the examples, with what is other than at its beginning."""
    shown: dict[str, object] = {
        "id": CONSIGNMENT_ID,
        "key": "night-run-7",
        "state": "open",
        "batch": None,
        "opened_at": _TIME,
        "last_activity_at": _TIME,
        "closed_at": None,
        "staged_messages": 0,
        "staged_bytes": 0,
        "receipt": None,
    }
    return shown | known


def _unknown(name: str, place: str = "", body: object = None) -> Example:
    return Example(
        name=f"consignment-{name}-unknown",
        text="There is no such consignment.",
        target=f"/v1/consignments/{OTHER_ID}{place}",
        headers=None if body is None else _JSON,
        body=body,
        status=404,
        code="consignment_unknown",
    )


OPEN = Operation(
    method="POST",
    path="/v1/consignments",
    name="openConsignment",
    summary="Open a consignment",
    text="""
`key` is the caller's own name for it, 1 to 256 characters. Whoever opens with the same key gets the same consignment,
also when it is committed: `state` tells. So every writer may open it, and open it again after a failure. If it was
discarded, a new one is opened.

With `batch` its messages become the items of a batch of the same key, which the commit seals: `true`, or
`{"webhook"?: {"url", "secret"?}, "notify"?: recipient}` as when a batch is opened. It counts only when the consignment
is new: whoever opens it first decides. If the answer has no `batch`, there is none.
""",
    bodies=(BodyContent(media_type=media.JSON, schema=of_schema("OpenConsignmentBody")),),
    answers=(
        _json(201, "Opened.", "ConsignmentOpened", "Cache-Control"),
        _json(200, "The one that has this key.", "ConsignmentOpened", "Cache-Control"),
    ),
    problems=_BODY_PROBLEMS,
    examples=(
        Example(
            name="consignment-open",
            text="By its key.",
            target="/v1/consignments",
            headers=_JSON,
            body={"key": "night-run-7"},
            status=201,
            answer=_OPENED,
        ),
        Example(
            name="consignment-open-again",
            text="Another writer opens the same.",
            target="/v1/consignments",
            headers=_JSON,
            body={"key": "night-run-7"},
            status=200,
            answer=_OPENED,
            after=("consignment-open",),
        ),
        Example(
            name="consignment-open-committed",
            text="It was committed: nothing is left to do.",
            target="/v1/consignments",
            headers=_JSON,
            body={"key": "night-run-7"},
            status=200,
            answer={**_OPENED, "state": "committed"},
            after=_COMMITTED,
        ),
        Example(
            name="consignment-open-batch",
            text="With a batch, and a message to alice when all of it was collected.",
            target="/v1/consignments",
            headers=_JSON,
            body={"key": "night-run-7", "batch": {"notify": "alice"}},
            status=201,
        ),
        Example(
            name="consignment-open-no-key",
            text="Without a key.",
            target="/v1/consignments",
            headers=_JSON,
            body={"batch": True},
            status=400,
            code="invalid_request",
        ),
    ),
)


_PLACE = query(
    StageParcel,
    writer=QueryText(
        text="Who stages: the name of a task or a file, one of many writers. Required.",
        form=text(WRITER_CHARACTERS_MAX, "1 to 256 characters, not blank."),
        example="task-1",
    ),
    attempt=QueryText(
        text="Which attempt of the writer it is: a task that runs again is another attempt. Required.", example=0
    ),
    parcel=QueryText(text="Which parcel of the attempt it is. They are delivered in this order. Required.", example=0),
)
_PARCEL_0 = f"{_ONE}/parcels?writer=task-1&attempt=0&parcel=0"

STAGE = Operation(
    method="POST",
    path="/v1/consignments/{consignment}/parcels",
    name="stage",
    summary="Stage a parcel of messages",
    text=(
        """
The messages are stored, and seen by nobody until the commit. The same writer, attempt and parcel again, with the same
messages, gets the same answer and is staged once; with other messages it is `invalid_client_state`. The settings bound
how much may be staged, by one consignment and in all: beyond it, `storage_full`. The header `Restante-Batch` is refused:
open the consignment with a batch.
"""
        + BODY_TEXT
    ),
    parameters=(CONSIGNMENT, *_PLACE, *BODY_HEADERS),
    bodies=BODIES,
    answers=(_json(201, "Staged and safe on disk. Duplicates count.", "Staged"),),
    problems=(
        "consignment_unknown",
        "consignment_closed",
        "invalid_client_state",
        "invalid_message",
        "message_conflict",
        "message_erased",
        *_BODY_PROBLEMS,
    ),
    examples=(
        Example(
            name="consignment-stage",
            text="The first parcel of a writer.",
            target=_PARCEL_0,
            headers=_JSON,
            body={"messages": [INVOICE, SECOND]},
            status=201,
            answer={"staged": 2},
            after=("consignment-open",),
        ),
        Example(
            name="consignment-stage-again",
            text="The same again, since no answer came: staged once.",
            target=_PARCEL_0,
            headers=_JSON,
            body={"messages": [INVOICE, SECOND]},
            status=201,
            answer={"staged": 2},
            after=_STAGED,
        ),
        Example(
            name="consignment-stage-other",
            text="Other messages in the same place.",
            target=_PARCEL_0,
            headers=_JSON,
            body={"messages": [INVOICE]},
            status=409,
            code="invalid_client_state",
            after=_STAGED,
        ),
        Example(
            name="consignment-stage-closed",
            text="It was committed.",
            target=f"{_ONE}/parcels?writer=task-2&attempt=0&parcel=0",
            headers=_JSON,
            body={"messages": [INVOICE]},
            status=409,
            code="consignment_closed",
            after=_COMMITTED,
        ),
        Example(
            name="consignment-stage-nowhere",
            text="Without the number of the parcel.",
            target=f"{_ONE}/parcels?writer=task-1&attempt=0",
            headers=_JSON,
            body={"messages": [INVOICE]},
            status=400,
            code="invalid_request",
            after=("consignment-open",),
        ),
        _unknown("stage", "/parcels?writer=task-1&attempt=0&parcel=0", {"messages": [INVOICE]}),
    ),
)
COMMIT = Operation(
    method="POST",
    path="/v1/consignments/{consignment}/commit",
    name="commitConsignment",
    summary="Commit a consignment",
    text="""
What the named attempts have staged becomes visible, all of it at one moment, or nothing. It is numbered in the order of
the writers as they are listed, and of their parcels. What other attempts have staged is dropped. A batch is sealed.

`messages` is how many messages the attempt has staged: if that is not so, the answer is `consignment_incomplete`, and
the consignment stays open. So does it at a `message_conflict`. Messages that were stored in the meantime are left out
as duplicates. Committing again, for 30 days, gives the same answer and changes nothing. If it names other writers,
attempts or counts, it is `consignment_closed`, and `recorded` is what the commit answered.
""",
    parameters=(CONSIGNMENT,),
    bodies=(BodyContent(media_type=media.JSON, schema=of_schema("CommitBody")),),
    answers=(_json(200, "Delivered.", "Receipt"),),
    problems=(
        "consignment_unknown",
        "consignment_closed",
        "consignment_incomplete",
        "message_conflict",
        "message_erased",
        *_BODY_PROBLEMS,
    ),
    examples=(
        Example(
            name="consignment-commit",
            text="One writer, of two messages.",
            target=f"{_ONE}/commit",
            headers=_JSON,
            body={"writers": [_WINNER]},
            status=200,
            answer=_RECEIPT,
            after=_STAGED,
        ),
        Example(
            name="consignment-commit-again",
            text="Again, since no answer came.",
            target=f"{_ONE}/commit",
            headers=_JSON,
            body={"writers": [_WINNER]},
            status=200,
            answer=_RECEIPT,
            after=_COMMITTED,
        ),
        Example(
            name="consignment-commit-incomplete",
            text="The writer says that it has staged three messages.",
            target=f"{_ONE}/commit",
            headers=_JSON,
            body={"writers": [{**_WINNER, "messages": 3}]},
            status=409,
            code="consignment_incomplete",
            after=_STAGED,
        ),
        Example(
            name="consignment-commit-otherwise",
            text="Again, and nobody is named: that is another commit.",
            target=f"{_ONE}/commit",
            headers=_JSON,
            body={"writers": []},
            status=409,
            code="consignment_closed",
            after=_COMMITTED,
        ),
        Example(
            name="consignment-commit-discarded",
            text="It was discarded.",
            target=f"{_ONE}/commit",
            headers=_JSON,
            body={"writers": [_WINNER]},
            status=409,
            code="consignment_closed",
            after=(*_STAGED, "consignment-discard"),
        ),
        _unknown("commit", "/commit", {"writers": []}),
    ),
)
DISCARD = Operation(
    method="DELETE",
    path="/v1/consignments/{consignment}",
    name="discardConsignment",
    summary="Discard a consignment",
    text=(
        "What it has staged is dropped, and its batch deleted. Again: the same answer. The hub does so by itself when "
        "nothing was staged for 24 hours (`consignment_idle_seconds`)."
    ),
    parameters=(CONSIGNMENT,),
    answers=(Answer(status=204, text="Discarded."),),
    problems=("consignment_unknown", "consignment_closed", *WRITING),
    examples=(
        Example(name="consignment-discard", text="An open one.", target=_ONE, status=204, after=("consignment-open",)),
        Example(
            name="consignment-discard-committed",
            text="Too late.",
            target=_ONE,
            status=409,
            code="consignment_closed",
            after=_COMMITTED,
        ),
        _unknown("discard"),
    ),
)
SHOW = Operation(
    method="GET",
    path="/v1/consignments/{consignment}",
    name="showConsignment",
    summary="Show a consignment",
    text="With what each attempt has staged. `receipt` is what the commit answered.",
    parameters=(CONSIGNMENT,),
    answers=(_json(200, "The consignment.", "ConsignmentDetails", "Cache-Control"),),
    problems=("consignment_unknown", *READING),
    examples=(
        Example(
            name="consignment",
            text="Committed.",
            target=_ONE,
            status=200,
            answer=_shown(state="committed", closed_at=_TIME, receipt=_RECEIPT, attempts=[]),
            after=_COMMITTED,
        ),
        Example(name="consignment-staged", text="Open.", target=_ONE, status=200, after=_STAGED),
        _unknown("show"),
    ),
)
CONSIGNMENTS = Operation(
    method="GET",
    path="/v1/consignments",
    name="listConsignments",
    summary="List consignments",
    text="The newest first.",
    parameters=query(ListConsignments, state=STATE, key=KEY, limit=LIMIT, after=after_id(CONSIGNMENT_ID)),
    answers=(_json(200, "A page.", "ConsignmentPage"),),
    problems=READING,
    examples=(
        Example(
            name="consignments",
            text="One is open.",
            target="/v1/consignments?state=open",
            status=200,
            answer={"consignments": [_shown()], "next": None},
            after=("consignment-open",),
        ),
        Example(
            name="consignments-state",
            text="A state that there is not.",
            target="/v1/consignments?state=closed",
            status=400,
            code="invalid_request",
        ),
    ),
)
SUBJECT = Subject(
    name="Consignments",
    text="""
For many writers and one moment of delivery, exactly once. Each writer stages parcels of messages under its own name and
the number of its attempt; when all are done, one commit names the attempts that count, and everything is delivered.
Nobody sees staged messages before. Every call may be repeated.
""",
    operations=(OPEN, CONSIGNMENTS, SHOW, STAGE, COMMIT, DISCARD),
)
