"""Which partitions of a table a change of its upstreams can touch, and how they are run again.

A leaf's column carries the table's partition labels where every output row in which a leaf row takes part
has that row's value as its label, and where a restriction on it commutes with the query. Then the rows of
labels A to B follow from the leaf's rows of labels A to B, and from them alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from headrace.planner.cells.affected import optional_output
from headrace.planner.cells.cells import Cells, cells_of_outputs
from headrace.planner.sql.facts import QueryFacts, Refusal
from headrace.planner.sql.label_time import label_time
from headrace.planner.strategies import AffectedKeys, AffectedPartitions, Full
from headrace.planner.strategies import affected_keys as keys
from headrace.spec.model import TableSpec


@dataclass(frozen=True)
class PartitionMap:
    """Leaves by their index into `TableSpec.references`: the column with the labels, or why there is none."""

    columns: tuple[tuple[int, str], ...] = ()
    refused: tuple[tuple[int, str], ...] = ()
    recompute: AffectedKeys | AffectedPartitions | Full = field(default_factory=Full)
    """How the rows that a change touches are run again whole: by partition, else by key, else all."""
    bound: bool = False
    """Whether the text's own parameters may carry a range: they compare nothing but these columns."""
    time: str | None = None
    """Where the query makes the labels itself, of one table: the column whose time they are."""

    def column(self, reference: int) -> str | None:
        return dict(self.columns).get(reference)

    def why_not(self, reference: int) -> str:
        return dict(self.refused).get(reference, "nothing is known of its query")


def partition_map(facts: QueryFacts, spec: TableSpec) -> PartitionMap:
    """The map of `spec`'s query."""
    references = range(len(spec.references))
    cells = _cells(facts, spec)
    if isinstance(cells, Refusal):
        narrow = keys.match(facts)
        recompute = Full() if isinstance(narrow, Refusal) else narrow
        refused = tuple((i, cells.reason) for i in references)
        return PartitionMap(refused=refused, recompute=recompute, time=label_time(spec))
    columns = {reference: held[0] for reference, held in cells.leaves}
    name = spec.partition_column
    assert name is not None
    shown = " and ".join(f"`{c}` of {facts.name_of(r)}" for r, c in columns.items())
    lost = f"nothing in the query makes a column of it equal to {shown}"
    return PartitionMap(
        columns=tuple(sorted(columns.items())),
        refused=tuple((i, lost) for i in references if i not in columns),
        recompute=AffectedPartitions((name,), cells),
        bound=_bound(spec, columns),
    )


def _cells(facts: QueryFacts, spec: TableSpec) -> Cells | Refusal:
    """The leaves' columns that hold the partition column of every output row."""
    name = spec.partition_column
    if name is None:
        return Refusal(f"`{spec.name}` has no partitions")
    if facts.root is None:
        return Refusal(facts.obstacle or "the query is not understood")
    if optional_output(facts.root, name):
        return Refusal(f"`{name}` comes from the optional side of a join")
    return cells_of_outputs(facts, (name,))


def _bound(spec: TableSpec, columns: dict[int, str]) -> bool:
    """Whether each parameter only bounds a mapped column, in the SELECT that reads its leaf."""
    parameters = list(spec.query_ast.find_all(exp.Parameter))
    return bool(parameters) and all(_bounds(spec, p, columns) for p in parameters)


def _bounds(spec: TableSpec, parameter: exp.Parameter, columns: dict[int, str]) -> bool:
    test, name = parameter.parent, parameter.name
    wanted = {"start_date": "low", "end_date": "high"}.get(name)
    if isinstance(test, exp.Between):
        if test.args.get(wanted or "") is not parameter:
            return False
    elif not isinstance(test, {"start_date": exp.GTE, "end_date": exp.LTE}.get(name, exp.Tuple)):
        return False
    if test is None or not isinstance(compared := test.this, exp.Column):
        return False
    select = test.find_ancestor(exp.Select)
    if select is None:
        return False
    return any(
        compared.name.lower() == column.lower()
        and compared.table.lower() in ("", spec.references[reference].alias.lower())
        and _reads(select, spec.references[reference].start)
        for reference, column in columns.items()
    )


def _reads(select: exp.Select, start: int) -> bool:
    """Whether the table named at `start` of the query's text stands in this SELECT's own FROM clause."""
    clause = select.args.get("from_")
    relations = [clause.this if clause is not None else None]
    relations += [join.this for join in select.args.get("joins") or ()]
    return any(
        isinstance(r, exp.Table) and min(p.meta.get("start", -1) for p in r.parts) == start for r in relations
    )
