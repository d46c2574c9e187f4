"""Consignments, described."""

from __future__ import annotations

from restante.calls.consignments import ListConsignments, StageParcel
from restante.limits import WRITER_CHARACTERS_MAX
from restante.server.openapi.parts import (
    Answer,
    Operation,
    QueryText,
    Subject,
    json_answer,
    json_body,
)
from restante.server.openapi.places import (
    CONSIGNMENT,
    CONSIGNMENT_ID,
    KEY,
    LIMIT,
    READING,
    STATE,
    WRITING,
    after_text,
    query,
)
from restante.server.openapi.routes.publishing import BODIES, BODY_HEADERS, BODY_TEXT
from restante.server.openapi.schemas import text

_BODY_PROBLEMS = ("body_too_large", "unsupported_media_type", *WRITING)


OPEN = Operation(
    method="POST",
    path="/v1/consignments",
    name="openConsignment",
    summary="Open a consignment",
    text="""
`key` is the caller's own name for it, 1 to 256 characters. A caller that opens the same key gets the same consignment,
also when it is committed: see `state`. So every writer may open it, and open it again after a failure. If it was
discarded, a new one is opened.

With `batch` its messages become the items of a batch of the same key, which the commit seals: `true`, or
`{"webhook"?: {"url", "secret"?}, "notify"?: recipient}` as when a batch is opened. It counts only when the consignment
is new: the first caller decides. If the answer has no `batch`, there is none.
""",
    bodies=(json_body("OpenConsignmentBody"),),
    answers=(
        json_answer(201, "Opened.", "ConsignmentOpened", "Cache-Control"),
        json_answer(200, "The one that has this key.", "ConsignmentOpened", "Cache-Control"),
    ),
    problems=_BODY_PROBLEMS,
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
    answers=(json_answer(201, "Staged and safe on disk. Duplicates count.", "Staged"),),
    problems=(
        "consignment_unknown",
        "consignment_closed",
        "invalid_client_state",
        "invalid_message",
        "message_conflict",
        "message_erased",
        *_BODY_PROBLEMS,
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
    bodies=(json_body("CommitBody"),),
    answers=(json_answer(200, "Delivered.", "Receipt"),),
    problems=(
        "consignment_unknown",
        "consignment_closed",
        "consignment_incomplete",
        "message_conflict",
        "message_erased",
        *_BODY_PROBLEMS,
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
)
SHOW = Operation(
    method="GET",
    path="/v1/consignments/{consignment}",
    name="showConsignment",
    summary="Show a consignment",
    text="With what each attempt has staged. `receipt` is what the commit answered.",
    parameters=(CONSIGNMENT,),
    answers=(json_answer(200, "The consignment.", "ConsignmentDetails", "Cache-Control"),),
    problems=("consignment_unknown", *READING),
)
CONSIGNMENTS = Operation(
    method="GET",
    path="/v1/consignments",
    name="listConsignments",
    summary="List consignments",
    text="The newest first.",
    parameters=query(ListConsignments, state=STATE, key=KEY, limit=LIMIT, after=after_text(CONSIGNMENT_ID)),
    answers=(json_answer(200, "A page.", "ConsignmentPage"),),
    problems=READING,
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
