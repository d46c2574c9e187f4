"""How help looks: text that fits any width, examples that stay whole, and options without the names of Python types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from restante.cli.shared.exits import EPILOG

_EXAMPLES = "\b"
"""A paragraph that begins with it is kept line by line."""
_STYLE = re.compile(r"(?<!\\)\[(?=[a-zA-Z/@#])")
"""A bracket at which Rich would look for a style."""


class Command(TyperCommand):
    """A command whose help is shown as above."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401  # Typer's own, passed on
        super().__init__(*arguments, **options)
        self.help = flowing(self.help)

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401  # Typer's own signature
        return _without_types(super().get_params(ctx))


class HelpGroup(TyperGroup):
    """A group of commands whose help is shown as above."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401  # Typer's own, passed on
        super().__init__(*arguments, **options)
        self.help = flowing(self.help)

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401  # Typer's own signature
        return _without_types(super().get_params(ctx))


def command_group(name: str, *, is_command: bool = False) -> typer.Typer:
    """A group of commands. Its name alone shows the help, unless that is a command too."""
    return typer.Typer(
        name=name,
        cls=HelpGroup,
        no_args_is_help=not is_command,
        epilog=EPILOG,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )


def command_of(group: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function a command of a group."""
    return group.command(name, epilog=EPILOG, cls=Command)


def flowing(text: str | None) -> str | None:
    """Each paragraph as one line, which the terminal breaks; examples as they are."""
    if text is None:
        return None
    return plain("\n\n".join(map(_paragraph, inspect.cleandoc(text).split("\n\n"))))


def plain(text: str) -> str:
    """The text with its brackets kept: Rich takes `restante[spark]` for a style, and leaves it out."""
    return _STYLE.sub(r"\\[", text)


def _paragraph(text: str) -> str:
    lines = text.split("\n")
    if lines[0] == _EXAMPLES:
        return "\n".join(lines[1:])
    return " ".join(lines)


def _without_types(parameters: list[Any]) -> list[Any]:
    """A flag has no value, and a text or a number is better told by its description."""
    for parameter in parameters:
        _convert_when_needed(parameter)
        parameter.help = plain(parameter.help or "")
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: ""  # noqa: ARG005  # An argument is named by what it is.
            if parameter.required:
                parameter._usage_display_name = partial(_plain_name, parameter)  # noqa: SLF001  # Typer has braces there.
        elif parameter.metavar is None:
            parameter.metavar = _value_name(parameter)
    return parameters


def _convert_when_needed(parameter: Any) -> None:  # noqa: ANN401  # a parameter of Typer
    """Typer's converters take longer to load than a small send takes. A text, and what was left out, need none."""
    if hasattr(parameter, "get_runtime_param") and "get_runtime_param" not in vars(parameter):
        parameter.get_runtime_param = partial(_Conversion, parameter.get_runtime_param)


class _Conversion:
    """Stands for a converter of Typer, and makes it when it is needed."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401  # Typer's own signature
        if value is None or value == ():
            return () if param.multiple or param.nargs == -1 else None
        kind = param.type_descriptor.annotation
        if kind is str and type(value) is str:
            return value
        if kind in (int, float) and value == param.default:
            return kind(value)
        return self._make().coerce(value, param=param, ctx=ctx)


def _plain_name(argument: Any) -> str:  # noqa: ANN401  # an argument of Typer
    name: str = argument.display_name_raw
    return name if argument.nargs == 1 else f"{name}..."


def _value_name(option: Any) -> str | None:  # noqa: ANN401  # an option of Typer
    if option.is_flag:
        return ""
    kind = getattr(option, "type_descriptor", None)  # Older versions of Typer have names of their own.
    if kind is None:
        return None
    if kind.is_choice:
        return "|".join(str(getattr(choice, "value", choice)) for choice in kind.choices)
    return _NAMES.get(option.bare_type().removeprefix("list[").removesuffix("]"))


_NAMES = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "datetime": "TIME"}
