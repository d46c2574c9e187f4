"""The jobs by their names, and their options made of text.

A job is a module of `restante.spark.jobs` that has `NAME`, `SUMMARY`, `Options` and `run`; nothing else registers it.
The error about a wrong option says which options there are, and what a value must be.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import msgspec
from msgspec import structs

from restante.errors import InvalidRequest
from restante.spark import jobs
from restante.spark.jobs.work import Outcome, Work
from restante.spark.source.option_words import description_of, struct_of, struct_of_text, words_for


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option of a job, for people who look."""

    name: str
    type: str
    """The type in words."""
    default: Any
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job, found by its name."""

    name: str
    summary: str
    kind: type[msgspec.Struct]
    """The struct of the job's options."""
    run: Callable[[Work, Any], Outcome]

    def options(self) -> list[Option]:
        """The options of the job, in the order in which they are written down."""
        return [_described(field) for field in structs.fields(self.kind)]

    def options_of_text(self, given: Mapping[str, str]) -> msgspec.Struct:
        """The options from texts such as a command line has: `partitions=4`."""
        return struct_of_text(self.kind, given, whose=self.name)

    def options_of(self, given: Mapping[str, object]) -> msgspec.Struct:
        """The options from values that have types already, as in a TOML file."""
        return struct_of(self.kind, given, whose=self.name)


def all_jobs() -> list[Job]:
    """Every job there is, by name."""
    names = [module.name for module in pkgutil.iter_modules(jobs.__path__)]
    modules = [importlib.import_module(f"{jobs.__name__}.{name}") for name in names]
    return sorted((_job(module) for module in modules if _is_job(module)), key=lambda job: job.name)


def job(name: str) -> Job:
    """The job of this name. If there is none, `InvalidRequest` lists the jobs."""
    found = {one.name: one for one in all_jobs()}
    if name not in found:
        raise InvalidRequest(f"There is no job {name!r}. There are {', '.join(found)}.")
    return found[name]


def _is_job(module: ModuleType) -> bool:
    return all(hasattr(module, name) for name in ("NAME", "SUMMARY", "Options", "run"))


def _job(module: ModuleType) -> Job:
    return Job(name=module.NAME, summary=module.SUMMARY, kind=module.Options, run=module.run)


def _described(field: structs.FieldInfo) -> Option:
    default = field.default
    if default is msgspec.NODEFAULT:
        default = None if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return Option(
        name=field.name,
        type=words_for(field.type),
        default=msgspec.to_builtins(default),
        description=description_of(field.type),
    )
