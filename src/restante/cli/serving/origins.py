"""`restante origins`: what an origin has to know to tell the hub's calls from a stranger's."""

from __future__ import annotations

from pathlib import Path

from restante.cli.shared.help import command_group, command_of
from restante.cli.shared.options import AsJson, HubFolder
from restante.cli.shared.output import print_answer

app = command_group("origins")


@app.callback()
def origins() -> None:
    """Show the secret by which origins verify calls of the hub.

    \b
    restante origins secret --data ./data
    """


@command_of(app, "secret")
def secret(
    data: HubFolder = Path("data"),
    as_json: AsJson = False,
) -> None:
    """Print the secret that signs the hub's calls to origins, as Standard Webhooks have it.

    The hub makes the secret once, and it stays the same. Calls to origins with a secret of their own in the settings
    (origins.<name>.secret) are signed with that secret.

    \b
    restante origins secret --data ./data
    """
    from restante.errors import InvalidRequest
    from restante.model.batches.webhook_rules import secret_text
    from restante.server.access.private_file import origin_secret

    if not data.is_dir():
        raise InvalidRequest(f"There is no folder {data}. Give the data folder of the hub with --data.")
    text = secret_text(origin_secret(data))
    print_answer({"secret": text}, text, as_json=as_json)
