"""How a change of one leaf reaches the driving leaf of a query: equality columns, one step a join."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """Rows of `from_reference` meet rows of `to_reference` only where these columns are equal, in order.

    References are indexes into `TableSpec.references`. `null_safe[i]` says that the i-th pair is compared
    by `<=>` and not by `=`.
    """

    from_reference: int
    from_columns: tuple[str, ...]
    to_reference: int
    to_columns: tuple[str, ...]
    null_safe: tuple[bool, ...]

    def reversed(self) -> Step:
        """The same equality, read from the driving side."""
        return Step(
            self.to_reference, self.to_columns, self.from_reference, self.from_columns, self.null_safe
        )


@dataclass(frozen=True)
class Path:
    """The steps from leaf `reference` to the driving leaf; `steps[-1].to_reference` is the driving leaf.

    The first steps of all paths of a strategy form a tree: two paths that share a leaf go on alike from
    there. So the leaf restricted forward is `reference ⋉ steps[0].to_reference`, nearest to the driving
    leaf first.
    """

    reference: int
    steps: tuple[Step, ...]
