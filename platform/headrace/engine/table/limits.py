"""What the driver does itself. More than that is a Spark job's work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Upper bounds, in rows unless said otherwise.

    Attributes:
        small: messages that stg tables take without a Spark job of many tasks.
        changed: changes that a derived table's refresh takes so.
        compared: rows of the table itself that such a refresh compares.
        inputs: upstream rows that such a refresh hands to a local query.
        rows: a table that is rewritten by the driver.
        changes: change rows that go through the driver; an update is two.
        versions: of a long tail, that the driver folds.
        range_rows: that a backfilled range may hold, be made of, or come to, to be compared by the driver.
        corrections: that a backfill or a rewind brings through the driver.
    """

    small: int = 20_000
    changed: int = 60_000
    compared: int = 100_000
    inputs: int = 500_000
    rows: int = 1_000_000
    changes: int = 1_500_000
    versions: int = 8
    range_rows: int = 250_000
    corrections: int = 200_000

    @property
    def messages(self) -> int:
        """Of a micro-batch, that Arrow ingests: an update is two change rows."""
        return self.changes // 2


DEFAULT_LIMITS = Limits()
