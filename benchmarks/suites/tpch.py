"""The suite `tpch`: the 22 queries of TPC-H as tables, compared with batch after every round of changes."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from statistics import mean
from typing import TYPE_CHECKING

from benchmarks.data.tpch import KEYS, generate, source_schema
from benchmarks.data.tpch_changes import Changes
from benchmarks.in_process import feed
from benchmarks.in_process.warehouse import RUN, Warehouse, open_warehouse
from benchmarks.report import Result, at_least
from benchmarks.runner import Bench, project_files
from headrace.engine.proof.parity import verify_batch
from headrace.engine.refresh.refresh import refresh_table
from headrace.engine.table.table import Delta, Table
from headrace.planner.strategies import Full
from headrace.spec.model import TableName

if TYPE_CHECKING:
    import pyarrow as pa

QUERIES = 22
NOT_FULL = 16
"""Queries of the 22 that must be maintained without FULL."""

COMPACTED_EVERY = 5
"""Rounds after which every snapshot is brought forward, so that both tails and snapshots are read."""


@dataclass
class Query:
    """What became of one table.

    Args:
        compared: comparisons with batch: after the load and after every round.
        seconds: of each round's refresh.
        problem: why it does not load, could not be refreshed, or how it first differed.
    """

    strategy: str = "–"
    reason: str = ""
    compared: int = 0
    equal: int = 0
    rows: int = 0
    seconds: list[float] = field(default_factory=list)
    problem: str = ""

    def failed(self, problem: str) -> None:
        self.problem = self.problem or problem


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    spark, directory, options, tell = bench.spark, bench.directory, bench.options, bench.tell
    data = generate(options.cache, options.scale)
    shutil.copytree(project_files("tpch"), directory / "project")
    warehouse = open_warehouse(
        spark, directory, lambda project: {s: source_schema(s, data) for s in project.sources()}
    )
    queries = {name: Query(problem=message) for name, message in warehouse.refused.items()}
    for table in warehouse.derived():
        plan = table.plan
        reason = plan.reason if isinstance(plan.strategy, Full) else ""
        queries[str(table.name)] = Query(plan.strategy.name, reason)
    for name in KEYS:
        tell(f"loading {name}")
        feed.load(spark, warehouse.table(f"stg.{name}"), data / f"{name}.parquet")
    _round(warehouse, queries, {}, timed=False)
    changes = Changes(options.seed)
    for number in range(1, options.rounds + 1):
        tell(f"round {number} of {options.rounds}")
        known = {
            delta.table: delta
            for name, change in changes.next({n: _rows(warehouse.table(f"stg.{n}"), n) for n in KEYS}).items()
            for delta in [feed.change(warehouse.table(f"stg.{name}"), list(change.put.values()), change.gone)]
        }
        _round(warehouse, queries, known, timed=True)
        if number % COMPACTED_EVERY == 0:
            warehouse.compact(after=0)
    return results_of(queries)


def _rows(table: Table, name: str) -> pa.Table:
    rows = table.store.head().read().select(table.store.schema.names)
    return rows.sort_by([(column, "ascending") for column in KEYS[name]])


def _round(
    warehouse: Warehouse, queries: dict[str, Query], known: dict[TableName, Delta], *, timed: bool
) -> None:
    """Refresh every table and compare it with its SQL. A table that fails stands still from then on."""
    for table in warehouse.derived():
        query = queries[str(table.name)]
        query.compared += 1
        if query.problem.startswith("failed"):
            continue
        begun = time.monotonic()
        try:
            delta = refresh_table(warehouse.sessions, warehouse.registry, table, known, run_id=RUN)
        except Exception as error:  # what a table's refresh raises is a finding, and the others go on
            query.failed(f"failed: {type(error).__name__}: {str(error).splitlines()[0]}")
            continue
        if timed:
            query.seconds.append(time.monotonic() - begun)
        if delta is not None:
            known[table.name] = delta
        result = verify_batch(warehouse.sessions.batch, warehouse.registry, table)
        query.rows = result.rows
        query.equal += result.equal
        if not result.equal:
            shown = [f"{r.side}: {r.row}" for r in result.sample[:2]]
            query.failed(
                f"differs at comparison {query.compared}: {result.missing} missing, {result.extra} extra; "
                + "; ".join(shown)
            )


def results_of(queries: dict[str, Query]) -> list[Result]:
    results = []
    for name, query in sorted(queries.items()):
        results += [
            Result(f"{_short(name)}.strategy", query.strategy),
            Result(f"{_short(name)}.refresh", mean(query.seconds) if query.seconds else None, "s"),
            Result(f"{_short(name)}.equal", query.equal, "comparisons"),
            Result(f"{_short(name)}.compared", query.compared, "comparisons"),
            Result(f"{_short(name)}.rows", query.rows),
            Result(f"{_short(name)}.why", query.problem or query.reason),
        ]
    own = {name: q for name, q in queries.items() if name.startswith("dws.")}
    loaded = [q for q in own.values() if q.compared]
    incremental = [q for q in loaded if q.strategy != Full.name]
    equal = [q for q in loaded if not q.problem and q.equal == q.compared]
    helpers_equal = all(q.compared and q.equal == q.compared for n, q in queries.items() if n not in own)
    return [
        *results,
        at_least("queries that load", len(loaded), QUERIES),
        at_least("queries equal to batch after every round", len(equal) if helpers_equal else 0, QUERIES),
        at_least("queries maintained without FULL", len(incremental), NOT_FULL),
    ]


def _short(name: str) -> str:
    """`q01` of `dws.q01`: a dot divides subject and measure."""
    return name.partition(".")[2]
