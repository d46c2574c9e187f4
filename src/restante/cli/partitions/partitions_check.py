"""`restante partitions check`: how evenly names would fall into partitions, before there is a hub."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from restante import limits
from restante.cli.shared.options import AsJson
from restante.cli.shared.output import output, print_answer, table_of
from restante.model.figures import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from restante.model.storage.partition import Spread

_BINS = 8
_BAR_WIDTH = 40
_UNEVEN_Z = 3.0


def check(
    names: Annotated[
        str,
        typer.Option(
            metavar="FILE|PATTERN",
            help="The recipients: a file with one name a line (- is standard input), or a pattern that counts.",
            show_default=False,
        ),
    ],
    count: Annotated[
        int, typer.Option(min=1, max=limits.PARTITIONS_MAX, help="How many partitions.")
    ] = limits.PARTITIONS_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show how evenly names are spread over partitions: mean and worst deviation, compared with chance.

    No hub is needed. A new data folder takes powers of two: there, names that count up spread better than chance.

    \b
    restante partitions check --names 'user-{1..100000}' --count 256
    restante partitions check --names recipients.txt --count 16
    """
    import numpy as np

    from restante.cli.partitions.checked_names import names_of
    from restante.errors import InvalidRequest
    from restante.model.storage.partition import partitions_of, spread_of

    counts = np.zeros(count, np.int64)
    for some in names_of(names):
        counts += np.bincount(partitions_of(some, count), minlength=count)
    if not counts.any():
        raise InvalidRequest("There are no names. Give a file with one name a line, or a pattern: 'user-{1..1000}'.")
    found = spread_of(counts)
    print_answer(found, partial(_print, found, counts), as_json=as_json)


def _print(found: Spread, counts: NDArray[np.int64]) -> None:
    from restante.model.storage.partition import is_power_of_two

    console = output()
    console.print(
        f"{counted(found.names, 'name')} in {counted(found.partition_count, 'partition')}, "
        f"{found.expected:,.1f} each if even; {found.least:,} to {found.most:,} found."
    )
    rows = [
        ("mean deviation", f"{found.mean_deviation_percent:.2f} %"),
        ("mean deviation by chance", f"{found.chance_mean_deviation_percent:.2f} %"),
        (f"worst deviation (partition {found.worst_partition})", f"{found.worst_deviation_percent:.2f} %"),
        ("chi-squared", f"{found.chi_squared:,.1f}"),
        ("z, against chance", f"{found.z:+.1f}"),
    ]
    console.print(table_of(("measure", "value"), rows, right=("value",)))
    console.print(table_of(("names", "partitions", ""), _histogram(counts), right=("names", "partitions")))
    if found.z > _UNEVEN_Z:
        console.print("Less even than chance: some partitions hold far more than others.")
    else:
        console.print("As even as chance, or more so.")
    if not is_power_of_two(found.partition_count):
        console.print("A new data folder takes powers of two only.")


def _histogram(counts: NDArray[np.int64]) -> list[tuple[str, str, str]]:
    """How many partitions have so many names, from the fewest to the most."""
    import numpy as np

    least, most = int(counts.min()), int(counts.max())
    width = (most - least) // _BINS + 1
    held = np.bincount((counts - least) // width)
    return [
        (
            f"{least + number * width:,}" + (f"–{least + (number + 1) * width - 1:,}" if width > 1 else ""),
            f"{partitions:,}",
            "█" * round(_BAR_WIDTH * partitions / int(held.max())),
        )
        for number, partitions in enumerate(held.tolist())
    ]
