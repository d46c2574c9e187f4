"""`format("restante")`: what Spark asks for a reader or a writer.

Spark asks in processes that it starts for that, and each of them imports this module. So functions import what they use.
"""

# ruff: noqa: PLC0415 - see above

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from restante.errors import InvalidOperation
from restante.spark.source.options import columns_of, reading_of, writing_of
from restante.spark.source.schemas import check_known, chosen

if TYPE_CHECKING:
    from restante.spark.source.batch_reader import MessageReader
    from restante.spark.source.stream_reader import ChangeReader
    from restante.spark.source.writer import MessageWriter, MicroBatchWriter


class RestanteSource(DataSource):
    """A hub, as Spark sees it."""

    @classmethod
    def name(cls) -> str:
        return "restante"

    def schema(self) -> StructType:
        reading_of(self.options)
        return chosen(columns_of(self.options))

    def reader(self, schema: StructType) -> MessageReader:
        from restante.spark.source.batch_reader import MessageReader

        check_known(schema)
        reading = reading_of(self.options)
        if reading.group is not None:
            raise InvalidOperation("Only a stream has a group: it begins where the group is. Use readStream.")
        return MessageReader(reading, schema)

    def streamReader(self, schema: StructType) -> ChangeReader:  # noqa: N802 - Spark's name
        from restante.spark.source.stream_reader import ChangeReader

        check_known(schema)
        return ChangeReader(reading_of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> MessageWriter:  # noqa: FBT001 - as Spark calls it
        from restante.spark.source.columns import check_columns
        from restante.spark.source.writer import MessageWriter

        if overwrite:
            raise InvalidOperation("Mailboxes cannot be written over: messages are added to them. Use mode('append').")
        writing = writing_of(self.options)
        check_columns(schema, writing)
        return MessageWriter(writing)

    def streamWriter(self, schema: StructType, overwrite: bool) -> MicroBatchWriter:  # noqa: ARG002, FBT001, N802 - as Spark calls it
        from restante.spark.source.columns import check_columns
        from restante.spark.source.writer import MicroBatchWriter

        writing = writing_of(self.options)
        check_columns(schema, writing)
        return MicroBatchWriter(writing)
