"""`restante work`: a worker of an app."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from restante.cli.shared.hub_options import DEFAULT_URL, HubUrl, TokenOption, settings_here
from restante.cli.shared.output import print_json
from restante.cli.shared.plain import say

if TYPE_CHECKING:
    from restante.work import App
    from restante.work.runner import WorkRunner
    from restante.work.worker_process import WorkerPlace

_PANEL = "How the worker is watched"


def work(  # noqa: PLR0917 - an option each
    app: Annotated[
        str | None,
        typer.Argument(metavar="MODULE:APP", help="Where the app is, such as shop.worker:app.", show_default=False),
    ] = None,
    hub: HubUrl = DEFAULT_URL,
    token: TokenOption = None,
    member: Annotated[
        str | None,
        typer.Option(help="The worker's name. The same name after a restart takes the old partitions over at once."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="How many actions at once, at most. Default: what the app says, or 32.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Answer /livez, /readyz and /metrics here; 0 takes a free port.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address of that port.", rich_help_panel=_PANEL)] = "127.0.0.1",
    liveness_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Touch this file every second while the worker runs.", rich_help_panel=_PANEL
        ),
    ] = None,
    openapi: Annotated[
        bool, typer.Option("--openapi", help="Only print an OpenAPI document of the app's actions.")
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Only print the tables that job.once needs.")] = False,
) -> None:
    """Do the actions of an app until Ctrl-C or SIGTERM; then the worker finishes what it has begun, and leaves.

    The worker joins the group of the app's name. Start as many as you like: they share the work. In a terminal the worker
    shows what it does; elsewhere its log is one JSON object a line. The exit code is 75 if a handler in a thread did not end
    in time: start it again.

    \b
    restante work shop.worker:app --hub http://127.0.0.1:8470
    restante work shop.worker:app --port 9101     /livez, /readyz and /metrics
    restante work shop.worker:app --openapi       describe its actions
    restante work --schema | psql shop            tables for job.once
    """
    if schema:
        from restante.work.once.dialogue import SCHEMA

        say(SCHEMA.rstrip("\n"), lines=True)
        return
    if app is None:
        raise typer.BadParameter("Name the app, such as shop.worker:app.", param_hint="MODULE:APP")
    found = _loaded(app)
    if openapi:
        from restante.work.openapi import openapi_document

        print_json(openapi_document(found))
        return
    if concurrency is not None:
        import msgspec

        found.policy = msgspec.structs.replace(found.policy, concurrency=concurrency)
    from restante.work.worker_process import WorkerPlace

    place = WorkerPlace(hub=hub, token=token, member=member, port=port, host=host, liveness_file=liveness_file)
    raise typer.Exit(_worked(found, place))


def _loaded(name: str) -> App:
    """The app of a module, which may lie in the folder where the command is called."""
    from importlib import import_module

    from restante.errors import InvalidRequest
    from restante.work import App

    module_name, _, attribute = name.partition(":")
    if not module_name:
        raise InvalidRequest(f"{name!r} names no module. Say where the app is, such as shop.worker:app.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise InvalidRequest(
            f"There is no module {module_name}. Call the command in the folder that has it."
        ) from error
    found = getattr(module, attribute or "app", None)
    if not isinstance(found, App):
        raise InvalidRequest(f"{module_name} has no app {attribute or 'app'}: it is made by restante.work.App(…).")
    return found


def _worked(app: App, place: WorkerPlace) -> int:
    from restante.cli.shared.no_pandas import leave_pandas_out

    leave_pandas_out()
    from restante.cli.work.progress import WorkProgress
    from restante.work.worker_process import work as serve

    progress = WorkProgress() if sys.stderr.isatty() else None

    def watch(runner: WorkRunner) -> None:
        runner.on_join = partial(say, f"Doing the actions of {app.name} at {place.hub}", flush=True)
        if progress is not None:
            progress.watch(runner)

    with nullcontext() if progress is None else progress.shown():
        _set_up_logs()
        return serve(app, place, watch=watch)


def _set_up_logs() -> None:
    """Set up logs as the hub logs; each line that a handler writes says which action it is about."""
    import logging

    from restante.server.logs import formatter
    from restante.work.attempt_log import WithAction

    settings = settings_here().server
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(settings.log, terminal=sys.stderr.isatty()))
    handler.addFilter(WithAction())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
