"""How a table shows the documents in the data of its messages. Chosen when the table is created."""

from __future__ import annotations

from enum import StrEnum


class Fidelity(StrEnum):
    """The fidelity of columns to documents: how much becomes columns, from nothing to everything."""

    NONE = "none"
    """No column `document`."""
    VARIANT = "variant"
    """The document as it is, in Spark's variant type."""
    WELL_DEFINED = "well-defined"
    """One type for each property. A value of another type becomes null, and is kept aside."""
    FULL_FIDELITY = "full-fidelity"
    """One column for each type of each property."""

    @property
    def has_columns(self) -> bool:
        """Whether the properties of a document become columns, so that there is a schema to infer."""
        return self in (Fidelity.WELL_DEFINED, Fidelity.FULL_FIDELITY)
