"""Settings from a TOML file and from environment variables, checked whole.

The file is read first; a variable `RESTANTE_A__B__C` then takes the place of the key `a.b.c`. Every problem is found and
reported in one error, each with the line of its key or the name of its variable.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_origin

import msgspec

from restante import limits
from restante.decoders import converted
from restante.errors import InvalidSettings
from restante.settings import Settings
from restante.settings.origins import problem_with_name
from restante.settings.rules import Section, problem_with, types_of
from restante.settings.tree import (
    PREFIX,
    KeyPath,
    dotted,
    is_map,
    kind_at,
    leaves,
    nearest_key,
    nearest_variable,
    printable,
    section_in,
    variable_path,
)

RESERVED = frozenset(
    {
        "RESTANTE_SETTINGS",
        "RESTANTE_HUB",
        "RESTANTE_TOKEN",
        "RESTANTE_BROKERS",
        "RESTANTE_LONG",
        "RESTANTE_TEST_POSTGRESQL",
        "RESTANTE_COUNTERS_PASSWORD",
        "RESTANTE_CLUSTER_SECRET",
        "RESTANTE_SPARK_REPOSITORIES",
    }
)
"""Variables of programs and tests, and what is not to be shown: no settings."""

_ENVIRONMENT = "environment "
_HIDDEN = "(not shown)"
_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


class Effective(msgspec.Struct, frozen=True):
    """A setting as it counts: its value, and where that came from (`default`, `file:line`, `environment NAME`)."""

    key: str
    value: Any
    source: str


class LoadedSettings(msgspec.Struct, frozen=True):
    """Settings, and the place of each that was given."""

    settings: Settings
    places: Mapping[KeyPath, str]

    def effective(self) -> list[Effective]:
        """Every setting that counts."""
        return [
            Effective(dotted(path), _shown(path, value), self.places.get(path, "default"))
            for path, value in leaves(Settings, msgspec.structs.asdict(self.settings), ())
        ]


def _shown(path: KeyPath, value: object) -> object:
    """Secrets are not."""
    if path == ("backplane", "kafka") and isinstance(value, Mapping):
        return dict.fromkeys(value, _HIDDEN)  # passwords may be among them
    return _HIDDEN if path[-1] == "secret" and value is not None else value


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """The settings of a file, if one is given, and of the environment. `InvalidSettings` lists all that is wrong."""
    return load(path, environ).settings


def load(path: Path | None, environ: Mapping[str, str]) -> LoadedSettings:
    """As `load_settings`, with the place of each setting."""
    draft = _Draft()
    if path is not None:
        _read_file(draft, path)
    _read_environment(draft, environ)
    _check_section(draft, Settings, draft.given, ())
    if draft.problems:
        problems = sorted(draft.problems, key=lambda problem: problem.startswith(_ENVIRONMENT))  # The file's first.
        heading = (
            "The settings have a problem:" if len(problems) == 1 else f"The settings have {len(problems)} problems:"
        )
        raise InvalidSettings("\n".join([heading, *problems]), problems=problems)
    return LoadedSettings(converted(draft.given, Settings), draft.places)


@dataclass(slots=True)
class _Draft:
    """The values given so far, where each stands, and what is wrong with it."""

    given: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def note(self, path: KeyPath, place: str) -> None:
        """Note a value at a place; the tables around it are there too, unless they were seen before."""
        self.places[path] = place
        for length in range(1, len(path)):
            self.places.setdefault(path[:length], place)

    def problem(self, path: KeyPath, detail: str) -> None:
        self.problems.append(f"{self.places[path]}: {dotted(path)}: {detail}")


# The file


def _read_file(draft: _Draft, path: Path) -> None:
    try:
        with path.open("rb") as file:
            content = file.read(limits.SETTINGS_FILE_BYTES_MAX + 1)
    except OSError as error:
        draft.problems.append(f"{path}: cannot be read ({error.strerror or error}); give a file that is there")
        return
    if len(content) > limits.SETTINGS_FILE_BYTES_MAX:
        draft.problems.append(f"{path}: is too large; at most {limits.SETTINGS_FILE_BYTES_MAX:,} bytes are allowed")
        return
    try:
        text = content.decode().replace("\r\n", "\n")
        draft.given = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        draft.problems.append(f"{path}:{line}: is not UTF-8; save the file as UTF-8")
    except (ValueError, RecursionError) as error:
        draft.problems.append(_syntax_problem(path, str(error), content.count(b"\n") + 1))
    else:
        for key, line in key_lines(text).items():
            draft.note(key, f"{path}:{line}")


def _syntax_problem(path: Path, message: str, last_line: int) -> str:
    found = _LINE.search(message)
    line = found[1] if found else last_line
    return f"{path}:{line}: is not TOML: {_LINE.sub('', message).removesuffix(' (at end of document)')}"


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line of each key of a TOML text that is right as a whole.

    A statement ends with the first line up to which it can be read: no statement goes on after that. So each is read by
    itself: a header says which table follows, the keys of all others are in the table of the last header.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    statement: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        statement.append(line)
        try:
            parsed = tomllib.loads("\n".join(statement))
        except ValueError:
            continue
        header = statement[0].lstrip(" \t").startswith("[")
        paths = list(_paths(parsed, () if header else table))
        for path in paths:
            lines.setdefault(path, number - len(statement) + 1)
        table = paths[-1] if header else table
        statement.clear()
    return lines


def _paths(tables: Mapping[str, Any], above: KeyPath) -> Iterator[KeyPath]:
    """The paths of all keys, each table before what is in it."""
    for name, value in tables.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from _paths(value, (*above, name))


# The environment


def _read_environment(draft: _Draft, environ: Mapping[str, str]) -> None:
    names: dict[KeyPath, str] = {}
    for name, text in sorted(environ.items()):
        if not name.startswith(PREFIX) or name in RESERVED:
            continue
        path, place = variable_path(name), f"{_ENVIRONMENT}{printable(name)}"
        if path is None:
            draft.problems.append(f"{place}: names no setting; {nearest_variable(name)}")
        elif path in names:
            draft.problems.append(f"{place}: is the same setting as {names[path]}; give one of them")
        else:
            names[path] = name
            _put(draft, path, text, place)


def _put(draft: _Draft, path: KeyPath, text: str, place: str) -> None:
    table = draft.given
    for name in path[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            return  # The file has something else there, which is a problem of its own.
    table[path[-1]] = _parsed(text, kind_at(path))
    draft.note(path, place)


def _parsed(text: str, kind: object) -> object:
    """The value that a variable stands for: a table or a list as in TOML, or the texts of a list between commas.

    A number that cannot be read stays text, which its rule then refuses.
    """
    listed = get_origin(kind) is tuple
    if listed and not text.strip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    if not listed and get_origin(kind) is not dict and kind not in (int, float, bool):
        return text
    try:
        parsed = tomllib.loads(f"value = {text.strip()}")
    except ValueError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


# The rules


def _check_section(draft: _Draft, section: type[Section], given: Mapping[str, Any], path: KeyPath) -> None:
    for name, value in given.items():
        here = (*path, name)
        kind = types_of(section).get(name)
        inner = section_in(kind)
        if name not in section.rules:
            draft.problem(here, f"is not known; {nearest_key(section, here)}")
        elif inner is None:
            problem = problem_with(section, name, value)
            if problem is not None:
                draft.problem(here, problem)
        elif is_map(kind):
            _check_map(draft, inner, value, here)
        else:
            _check_table(draft, inner, value, here)
    required = [field.name for field in msgspec.structs.fields(section) if field.required and field.name not in given]
    if required:
        draft.problem(path, f"needs {' and '.join(required)} too")


def _check_map(draft: _Draft, section: type[Section], value: object, path: KeyPath) -> None:
    if not isinstance(value, dict):
        draft.problem(path, f"must be tables by name, such as [{dotted((*path, 'name'))}]")
        return
    for name, entry in value.items():
        problem = problem_with_name(name)
        if problem is not None:
            draft.problem((*path, name), problem)
        _check_table(draft, section, entry, (*path, name))


def _check_table(draft: _Draft, section: type[Section], value: object, path: KeyPath) -> None:
    if isinstance(value, dict):
        _check_section(draft, section, value, path)
    else:
        draft.problem(path, f"must be a table: [{dotted(path)}] on a line of its own, its keys below")
