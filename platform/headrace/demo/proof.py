"""The end of the demo: every table against batch, source, PostgreSQL and another engine's reading."""

from __future__ import annotations

import psycopg

from headrace.demo import oracle
from headrace.demo.multisets import Comparison, compare, tuples
from headrace.demo.report import TableFigures
from headrace.demo.stage import WATCHED, Stage
from headrace.demo.waiting import not_compacted, wait_for
from headrace.results import ParityResult, Statement
from headrace.storage.location import delta_table


def prove(stage: Stage) -> None:
    """All comparisons, also after one that failed. The source must rest."""
    _verify(stage)
    _ask_postgres(stage)
    _read_snapshot(stage)


def _verify(stage: Stage) -> None:
    """`VERIFY`: every table equals its SQL in batch, every stg table its source."""
    report = stage.report
    with stage.display.step("verify", "Verify every table against batch, stg against the source") as say:

        def follow(statement: Statement) -> None:
            say(statement.message)

        statement = stage.client.run("VERIFY", follow)
        results = [ParityResult.model_validate(result) for result in statement.result]
        for result in results:
            _add(report.tables, result)
            if not result.equal:
                _tell(stage, f"{result.table} against {result.against}", result)
        uncompared = set(stage.stg_tables) - {r.table for r in results if r.against == "source"}
        if uncompared:
            report.problems.append(f"not compared with the source: {', '.join(sorted(uncompared))}")
        say(f"{len(results)} comparisons, {sum(not r.equal for r in results)} differ")


def _add(tables: dict[str, TableFigures], result: ParityResult) -> None:
    # A table is equal only where every comparison of its kind was; a kind never made counts as not proven.
    figures = tables.setdefault(result.table, TableFigures(rows=result.rows, parity=False))
    if result.against == "source":
        figures.source_parity = result.equal and figures.source_parity is not False
    else:
        figures.rows, figures.parity = result.rows, result.equal


def _ask_postgres(stage: Stage) -> None:
    """dws as PostgreSQL computes it from the source tables."""
    with (
        stage.display.step("postgres", "Compare dws with PostgreSQL's own result") as say,
        psycopg.connect(stage.dsn) as connection,
    ):
        connection.execute("SET LOCAL search_path = public")
        for table in oracle.TABLES:
            say(table)
            columns, rows = oracle.expected(connection, table)
            live = stage.client.query(f"SELECT * FROM {table}")
            comparison = compare(columns, table=tuples(live, columns), expected=rows)
            stage.report.postgres[table] = comparison.equal
            if not comparison.equal:
                _tell(stage, f"{table} against PostgreSQL", comparison)
        say(f"{len(oracle.TABLES)} tables")


def _read_snapshot(stage: Stage) -> None:
    """The snapshot as delta-rs reads it, without Spark, against the live rows."""
    with stage.display.step("snapshot_read", f"Read the snapshot of {WATCHED} without Spark") as say:
        wait_for(
            f"a snapshot of {WATCHED} with all changes",
            lambda: not_compacted(stage.client.status(), WATCHED),
            timeout=120 + 3 * stage.settings.compaction_interval_seconds,
            say=say,
        )
        layer, _, name = WATCHED.partition(".")
        table = delta_table(stage.settings.warehouse / layer / name / "snapshot")
        live = stage.client.query(f"SELECT * FROM {WATCHED}")
        read = table.to_pyarrow_table(columns=live.column_names)
        columns = live.column_names
        comparison = compare(columns, table=tuples(read, columns), expected=tuples(live, columns))
        stage.report.snapshot_equal[WATCHED] = comparison.equal
        if not comparison.equal:
            _tell(stage, f"the snapshot of {WATCHED} against its live rows", comparison)
        say(f"{comparison.rows:,} rows")


def _tell(stage: Stage, title: str, found: Comparison | ParityResult) -> None:
    error = f": {found.error}" if isinstance(found, ParityResult) and found.error else ""
    text = f"{title}: {found.missing} rows missing, {found.extra} too many{error}"
    stage.report.problems.append(text)
    stage.display.differing(text, found.sample)
