"""The view of a bundle that both surfaces share."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from restante.model.figures import counted
from restante.model.mailboxes.answers import BundleAnswer
from restante.model.mailboxes.message_tables import with_text_ids
from restante.model.publishing.message import Message


class BundleView:
    """The answer of a peek. Each surface adds how it is confirmed."""

    def __init__(self, answer: BundleAnswer) -> None:
        self.bundle_id = answer.bundle_id
        self.recipient = answer.recipient
        self.origin = answer.origin
        self.kind = answer.kind
        self.document_types = answer.document_types
        self.message_count = answer.message_count
        self._answer = answer
        self.content = answer.content
        """The content of claim-check messages, as their origin delivered it."""
        self.media_type = answer.media_type

    @cached_property
    def raw_table(self) -> pa.Table:
        """The messages as Arrow columns, as they travel: `id` is 16 bytes, and `text_id` the text of one that is no UUID."""
        return self._answer.table

    @cached_property
    def table(self) -> pa.Table:
        """The messages as Arrow columns, with ids as text; made when first asked for."""
        return with_text_ids(self.raw_table)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """The messages as values, made when first asked for."""
        return self._answer.messages

    def __repr__(self) -> str:
        return f"<Bundle {self.bundle_id}: {counted(self.message_count, 'message')} of {self.origin}/{self.kind}>"
