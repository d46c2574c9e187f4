"""Routes of operators, and who may do what, described."""

from __future__ import annotations

from restante.server.openapi.parts import Answer, BodyContent, Operation, Parameter, Subject, of_schema
from restante.server.openapi.places import LIMIT, READING, WRITING, number
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
SETTINGS = Operation(
    method="GET",
    path="/v1/settings",
    name="showSettings",
    summary="Show the settings in force",
    text="Every setting, and whether its value is the default, or which line or variable it came from. Secrets are not shown.",
    answers=(
        Answer(
            status=200,
            text="The settings.",
            contents=(BodyContent(media_type=media.JSON, schema=of_schema("SettingsInForce")),),
            headers=("Cache-Control",),
        ),
    ),
    problems=("unavailable",),
)
SUBJECT = Subject(
    name="Operating",
    text="The hub keeps house by itself; these calls do it now. And what an operator looks at.",
    operations=(
        _maintenance("file", "File now", "Merges mailbags that were published. Gives how many runs were merged."),
        _maintenance("expire", "Settle what has expired", "Gives how many messages have expired."),
        _maintenance("retain", "Remove what is past its retention", "Gives how many messages left history."),
        BACKUP,
        SETTINGS,
    ),
)
_TOKEN = Parameter(
    name="token",
    where="path",
    text="The id of the token, as the list shows it: never its text.",
    schema={"type": "string", "minLength": 1},
    example="k4m7p2wz",
)


def _told(status: int, text: str, schema: str) -> tuple[Answer, ...]:
    contents = (BodyContent(media_type=media.JSON, schema=of_schema(schema)),)
    return (Answer(status=status, text=text, contents=contents, headers=("Cache-Control",)),)


WHO_AM_I = Operation(
    method="GET",
    path="/v1/whoami",
    name="whoAmI",
    summary="Say who asks",
    text="The roles of the token that came with the request, and what they are bound to.",
    answers=_told(200, "The caller.", "Caller"),
    problems=("unavailable",),
)
TOKENS = Operation(
    method="GET",
    path="/v1/tokens",
    name="listTokens",
    summary="List tokens",
    text="The newest first, those that are revoked or have expired too. The text of a token is not kept.",
    parameters=(
        number("limit", LIMIT.text, least=1, example=50),
        number("after", "The `next` of the page before.", least=0, example=50),
    ),
    answers=_told(200, "A page.", "TokenPage"),
    problems=("overloaded", "unavailable"),
)
MAKE = Operation(
    method="POST",
    path="/v1/tokens",
    name="makeToken",
    summary="Make a token",
    text=(
        "The answer has the text of the token, which nobody can see again. A hub that asks for no token refuses: the first "
        "token is made on its own machine, with `restante tokens create`."
    ),
    bodies=(BodyContent(media_type=media.JSON, schema=of_schema("TokenBody")),),
    answers=_told(201, "The token.", "TokenMade"),
    problems=("body_too_large", "unsupported_media_type", "overloaded", "unavailable"),
)
REVOKE = Operation(
    method="DELETE",
    path="/v1/tokens/{token}",
    name="revokeToken",
    summary="Revoke a token",
    text="Within a second it is worth nothing, and connections that it opened end. Again is no error.",
    parameters=(_TOKEN,),
    answers=_told(200, "The token as it is now.", "TokenShown"),
    problems=("body_too_large", "overloaded", "unavailable"),
)
ACCESS = Subject(
    name="Access",
    text="Who may do what. A token has roles, and may be bound to origins, recipients and groups.",
    operations=(WHO_AM_I, TOKENS, MAKE, REVOKE),
)
