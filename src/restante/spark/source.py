"""`format("restante")`: what Spark asks for a reader or a writer."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from restante.errors import InvalidOperation
from restante.spark.batch_reading import MessageReader
from restante.spark.columns import check_columns
from restante.spark.options import columns_of, reading_of, writing_of
from restante.spark.schemas import check_known, chosen
from restante.spark.stream_reading import ChangeReader
from restante.spark.writing import MessageWriter, MicroBatchWriter


class RestanteSource(DataSource):
    """A hub, as Spark sees it."""

    @classmethod
    def name(cls) -> str:
        return "restante"

    def schema(self) -> StructType:
        reading_of(self.options)
        return chosen(columns_of(self.options))

    def reader(self, schema: StructType) -> MessageReader:
        check_known(schema)
        return MessageReader(reading_of(self.options), schema)

    def streamReader(self, schema: StructType) -> ChangeReader:  # noqa: N802 - Spark's name
        check_known(schema)
        return ChangeReader(reading_of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> MessageWriter:  # noqa: FBT001 - as Spark calls it
        if overwrite:
            raise InvalidOperation("Mailboxes cannot be written over: messages are added to them. Use mode('append').")
        writing = writing_of(self.options)
        check_columns(schema, writing)
        return MessageWriter(writing)

    def streamWriter(self, schema: StructType, overwrite: bool) -> MicroBatchWriter:  # noqa: ARG002, FBT001, N802 - as Spark calls it
        writing = writing_of(self.options)
        check_columns(schema, writing)
        return MicroBatchWriter(writing)
