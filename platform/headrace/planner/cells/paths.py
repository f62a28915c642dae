"""How a change of one leaf reaches the cells of a query: equality columns, one step a join."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """Rows of `from_reference` meet rows of `to_reference` only where these columns are equal, in order.

    References are indexes into `TableSpec.references`. `null_safe[i]` says that the i-th pair is compared
    by `<=>` and not by `=`. `null_aware` is NOT IN: any row of the from side also meets the rows with a
    NULL on the to side, and a NULL on the from side meets every row, so that refresh has to be FULL.
    """

    from_reference: int
    from_columns: tuple[str, ...]
    to_reference: int
    to_columns: tuple[str, ...]
    null_safe: tuple[bool, ...]
    null_aware: bool = False

    def reversed(self) -> Step:
        """The same equality, read from the other side."""
        return Step(
            self.to_reference,
            self.to_columns,
            self.from_reference,
            self.from_columns,
            self.null_safe,
            self.null_aware,
        )


@dataclass(frozen=True)
class Path:
    """The steps from a free leaf `reference` to a partitioned one, `steps[-1].to_reference`.

    A leaf has several where it meets a UNION: all of them count, and their first steps leave from the same
    columns. The rest of a path is a path of the leaf that its first step leads to.
    """

    reference: int
    steps: tuple[Step, ...]
