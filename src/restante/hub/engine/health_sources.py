"""`HealthSources`: each subject registers its measures, and health reads them all in each round.

`core.memory(HealthSources).register("filing", measure)` adds a measure to a leaf; `register_parts` adds leaves that come
and go, such as one for each group. One thread calls every measure each ten seconds. A measure that raises makes its leaf
red.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from restante.model.health.bounds import ONE_IS_RED, Measure, Reading
from restante.model.health.tree import COMPONENTS, HealthLeaf

PartsMeasure = Callable[[], Iterable[HealthLeaf]]
_log = logging.getLogger(__name__)


class HealthSources:
    """The registered measures of one hub."""

    def __init__(self) -> None:
        self._measures: list[tuple[str, Measure]] = []
        self._parts: list[tuple[str, PartsMeasure]] = []

    def register(self, component: str, measure: Measure) -> None:
        """Add a measure to a component, which may have others."""
        assert component in COMPONENTS, component
        self._measures.append((component, measure))

    def register_parts(self, component: str, measure: PartsMeasure) -> None:
        """Add a measure that yields one leaf for each part that the component has at the time."""
        assert component in COMPONENTS, component
        self._parts.append((component, measure))

    def leaves(self) -> list[HealthLeaf]:
        """Call every measure, and return the leaves."""
        readings: dict[str, list[Reading]] = {}
        for component, measure in self._measures:
            readings.setdefault(component, []).extend(_taken(measure, component))
        found = [HealthLeaf(component=name, readings=tuple(own)) for name, own in readings.items()]
        return [*found, *self._part_leaves()]

    def _part_leaves(self) -> Iterator[HealthLeaf]:
        for component, measure in self._parts:
            try:
                yield from measure()
            except Exception as error:  # noqa: BLE001  # a failed measure is reported, and the others still run
                yield HealthLeaf(component=component, readings=(_unmeasurable(component, error),))


def _taken(measure: Measure, component: str) -> list[Reading]:
    try:
        return list(measure())
    except Exception as error:  # noqa: BLE001  # a failed measure is reported, and the others still run
        return [_unmeasurable(component, error)]


def _unmeasurable(component: str, error: Exception) -> Reading:
    _log.error("The health of %s cannot be measured.", component, exc_info=error)
    reason = f"It cannot be measured ({type(error).__name__}): the log says more."
    return Reading(name="unmeasurable", value=1, unit="failures", bound=ONE_IS_RED, reason=reason)
