"""Choose a table's refresh strategy: the first in the registry that is certain to be right."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import Location, SpecError
from headrace.planner.plan import Plan
from headrace.planner.sql.extract import Upstream, extract
from headrace.planner.sql.facts import Refusal
from headrace.planner.strategies import Full, Row, Strategy, TopN, top_n
from headrace.planner.strategies.matchers import MATCHERS
from headrace.planner.strategies.partitions import partition_map
from headrace.spec.model import RefreshPolicy, TableSpec


def analyze(
    spec: TableSpec,
    keys: Mapping[Upstream, tuple[str, ...]],
    columns: Mapping[Upstream, tuple[str, ...]],
    types: Mapping[Upstream, Mapping[str, str]] | None = None,
    *,
    excluded: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of `spec`.

    Args:
        spec: the table.
        keys: primary key of each upstream, and of the table itself under its own name.
        columns: output columns of each upstream and of the table itself.
        types: Spark SQL type of each upstream's columns, where they are known. Without them every `=` counts
            as one between columns of the same type.
        excluded: strategies that do not hold, and why, where only Spark can tell.

    Raises:
        SpecError: only FULL is left under `REFRESH_POLICY = INCREMENTAL STRICT`, or a stg table does
            anything but filter and project its source.
    """
    facts = extract(spec, keys, columns, types)
    partitions = partition_map(facts, spec)
    refused: list[tuple[str, str]] = []
    chosen: Strategy = Full()
    for name, match in MATCHERS:
        ruled_out = (excluded or {}).get(name)
        found = match(facts) if ruled_out is None else Refusal(ruled_out)
        if not isinstance(found, Refusal):
            chosen = found
            break
        refused.append((name, found.reason))
    if isinstance(chosen, Full) and (unlimited := top_n.without_limit(spec)) is not None:
        facts = extract(unlimited, keys, columns, types)
        first = top_n.match(spec, unlimited, facts)
        if isinstance(first, Refusal):
            refused.append((TopN.name, first.reason))
        else:
            chosen = first
    where = Location(spec.path, spec.query_line)
    if spec.source is not None and not isinstance(chosen, Row):
        raise SpecError(
            f"`{spec.name}` may only filter and project its source: {refused[0][1]}",
            where,
            "keep the source's primary key in the SELECT list; join and aggregate in a dwd or dws table",
        )
    if spec.refresh_policy is RefreshPolicy.FULL and spec.source is None:
        skipped = () if isinstance(chosen, Full) else ((chosen.name, "REFRESH_POLICY = FULL"),)
        return Plan(Full(), "REFRESH_POLICY = FULL", (*refused, *skipped), partitions=partitions)
    if spec.refresh_policy is RefreshPolicy.INCREMENTAL_STRICT and isinstance(chosen, Full):
        raise SpecError(
            f"`{spec.name}` cannot be refreshed incrementally: {refused[-1][1]}",
            where,
            "rewrite the query, or declare REFRESH_POLICY = AUTO",
        )
    reason = _reason(chosen, refused) or chosen.describe(facts)
    return Plan(chosen, reason, tuple(refused), partitions=partitions)


def _reason(chosen: Strategy, refused: list[tuple[str, str]]) -> str:
    return refused[-1][1] if isinstance(chosen, Full) and refused else ""
