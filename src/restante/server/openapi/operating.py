"""What operators do, described."""

from __future__ import annotations

from restante.server.openapi.parts import Answer, BodyContent, Operation, Subject, of_schema
from restante.server.openapi.places import READING, WRITING
from restante.server.openapi.schemas import BINARY
from restante.wire import media


def _maintenance(name: str, summary: str, text: str) -> Operation:
    path = f"/v1/maintenance/{name}"
    return Operation(
        method="POST",
        path=path,
        name=name,
        summary=summary,
        text=text,
        answers=(
            Answer(
                status=200,
                text="Done.",
                contents=(BodyContent(media_type=media.JSON, schema=of_schema("Done")),),
            ),
        ),
        problems=WRITING,
    )


BACKUP = Operation(
    method="GET",
    path="/v1/backup",
    name="backup",
    summary="Back up everything",
    text=(
        "A tar stream of the whole data folder as of one moment, while the hub goes on. `restante restore` takes it. "
        "An answer that is cut off is no backup: its end is missing, and restoring it is refused."
    ),
    answers=(
        Answer(
            status=200,
            text="The archive.",
            contents=(BodyContent(media_type="application/x-tar", schema=BINARY),),
            headers=("Content-Disposition", "Cache-Control"),
        ),
    ),
    problems=READING,
)
SUBJECT = Subject(
    name="Operating",
    text="The hub does all of this by itself; these calls do it now.",
    operations=(
        _maintenance("file", "File now", "Merges mailbags that were published. Gives how many runs were merged."),
        _maintenance("expire", "Settle what has expired", "Gives how many messages have expired."),
        _maintenance("retain", "Remove what is past its retention", "Gives how many messages left history."),
        BACKUP,
    ),
)
