"""`restante origins`: what an origin has to know to tell the hub's calls from a stranger's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from restante.cli.shared.exits import EPILOG
from restante.cli.shared.help import Command, HelpGroup
from restante.cli.shared.hub_options import AsJson
from restante.cli.shared.plain import say

app = typer.Typer(
    name="origins",
    cls=HelpGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    epilog=EPILOG,
)


@app.callback()
def origins() -> None:
    """Show what origins check the hub's calls with.

    \b
    restante origins secret --data ./data
    """


@app.command("secret", epilog=EPILOG, cls=Command)
def secret(
    data: Annotated[
        Path, typer.Option("--data", metavar="FOLDER", file_okay=False, help="The data folder of the hub.")
    ] = Path("data"),
    as_json: AsJson = False,
) -> None:
    """Print the secret that signs the hub's calls to origins, as Standard Webhooks have it.

    It is made if there is none yet, and stays the same. Origins with a secret of their own in the settings
    (origins.<name>.secret) are signed with that.

    \b
    restante origins secret --data ./data
    """
    from restante.cli.shared.output import print_json
    from restante.errors import InvalidRequest
    from restante.model.batches.webhook_rules import secret_text
    from restante.server.access.origin_secret import origin_secret

    if not data.is_dir():
        raise InvalidRequest(f"There is no folder {data}. Give the data folder of the hub with --data.")
    text = secret_text(origin_secret(data))
    if as_json:
        print_json({"secret": text})
    else:
        say(text)
