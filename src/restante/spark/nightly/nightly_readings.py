"""The meter readings of a night, and the prices of its quarter-hours: made up, and the same each time from one seed.

Every value follows from its number and the seed by a hash, so any number of tasks make the same readings, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

QUARTERS = 96
"""The quarter-hours of a day."""
AREAS = ("north", "east", "south", "west")
_READING = "meter bigint, actor string, area string, meter_group int, quarter int, energy_wh bigint"
_PEAK = (68, 83)
"""The first and the last quarter-hour in which more is used, at higher prices: from 17:00 to 21:00."""


@dataclass(frozen=True, kw_only=True)
class NightInput:
    """The input of a night: its size, and what everything is made from."""

    day: date
    seed: int
    readings: int
    actors: int
    groups: int
    """The meter groups of every actor."""
    prefix: str = "actor-"
    """How the names of the actors begin."""

    @property
    def meters(self) -> int:
        """How many meters there are: as many as need not read more than once a quarter-hour, and at least one for every group."""
        return max(self.actors * self.groups, -(-self.readings // QUARTERS))


def transform_readings(numbers: DataFrame, night: NightInput) -> DataFrame:
    """A reading for each `id`: of which meter, whose, in which group and area, in which quarter-hour, how much."""
    meter, quarter = f.col("id") % f.lit(night.meters), _whole(f.col("id"), night.meters)
    number = f.col("meter") % f.lit(night.actors)
    group = _whole(f.col("meter"), night.actors) % f.lit(night.groups)
    area = _area(number + group)
    energy = _drawn(night, "energy", "meter", "quarter", least=50, most=950) + _peak(400)
    return numbers.select(meter.alias("meter"), quarter.cast("int").alias("quarter")).select(
        "meter",
        f.concat(f.lit(night.prefix), f.lpad(number.cast("string"), 6, "0")).alias("actor"),
        area.alias("area"),
        group.cast("int").alias("meter_group"),
        "quarter",
        energy.alias("energy_wh"),
    )


def transform_records(records: DataFrame) -> DataFrame:
    """The readings that records have as JSON in their values, with the columns of `transform_readings`.

    A record that is no whole reading of a quarter-hour of the day, in an area that has prices, is left out.
    """
    read = records.select(f.from_json(f.col("value").cast("string"), _READING).alias("reading")).select("reading.*")
    whole = f.col("quarter").between(0, QUARTERS - 1) & f.col("area").isin(*AREAS) & (f.col("energy_wh") >= f.lit(0))
    return read.where(whole).dropna()


def transform_prices(numbers: DataFrame, night: NightInput) -> DataFrame:
    """A price for each `id` below the number of areas times that of quarter-hours: in cents for a megawatt-hour."""
    area = _area(_whole(f.col("id"), QUARTERS))
    quarter = (f.col("id") % f.lit(QUARTERS)).cast("int")
    price = _drawn(night, "price", "area", "quarter", least=3_000, most=9_000) + _peak(4_000)
    return numbers.select(area.alias("area"), quarter.alias("quarter")).select(
        "area", "quarter", price.alias("price_cents_per_mwh")
    )


def _area(number: Column) -> Column:
    return f.element_at(f.array(*map(f.lit, AREAS)), (number % f.lit(len(AREAS)) + f.lit(1)).cast("int"))


def _whole(number: Column, by: int) -> Column:
    """How often `by` goes into the number, in whole numbers, which are exact however large they are."""
    return f.call_function("div", number, f.lit(by))


def _drawn(night: NightInput, what: str, *columns: str, least: int, most: int) -> Column:
    """A whole number from `least` to `most`, by chance as far as anyone can see."""
    drawn = f.xxhash64(f.lit(night.seed), f.lit(night.day.isoformat()), f.lit(what), *columns)
    return f.pmod(drawn, f.lit(most - least + 1)) + f.lit(least)


def _peak(more: int) -> Column:
    return f.when(f.col("quarter").between(*_PEAK), f.lit(more)).otherwise(f.lit(0))
