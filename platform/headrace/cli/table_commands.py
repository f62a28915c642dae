"""sql, refresh, verify, explain, changes, suspend, resume, check, dead-letters: what the gateway answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import progress
from headrace.cli.cascade import run_cascade
from headrace.cli.errors import FAILED, UsageError
from headrace.cli.options import (
    End,
    Json,
    Project,
    Start,
    Table,
    find_project,
    load_settings,
    open_client,
    partition_clause,
)
from headrace.cli.output import note, print_columns, print_json, print_rows
from headrace.cli.parity import show_parity

if TYPE_CHECKING:
    from pathlib import Path


def sql(
    statement: Annotated[
        str, typer.Argument(metavar="STATEMENT", help='E.g. "SELECT * FROM dws.user_hour".')
    ],
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Run one statement.

    SELECT …; SHOW MATERIALIZED TABLES; SHOW PARTITIONS T; SHOW WORKFLOWS; DESCRIBE MATERIALIZED TABLE T;
    EXPLAIN MATERIALIZED TABLE T [HISTORY];
    CREATE [OR ALTER] MATERIALIZED TABLE …; DROP MATERIALIZED TABLE [IF EXISTS] T;
    APPLY [BLUE GREEN] [DRY RUN];
    ALTER MATERIALIZED TABLE T {SUSPEND | RESUME | REFRESH PARTITION (…) [CASCADE [DRY RUN]]
    | REFRESH NEW | SET {FRESHNESS | REFRESH_MODE} = … | RESET {FRESHNESS | REFRESH_MODE | IMMUTABLE}
    | SET IMMUTABLE WHERE (column < 'label')
    | AS <query> | ROLLBACK | REWIND TO {VERSION n | TIMESTAMP '…'} [CASCADE] [DRY RUN]};
    VERIFY [T, …] [PARTITION (…)] [WITHOUT SOURCE] [REPAIR]; CHECK T [PARTITION (…)];
    CHANGES T [FROM VERSION n]; SHOW DEAD LETTERS [T].
    """
    with open_client(project) as client:
        finished = progress.run(client, statement)
        if finished.has_rows:
            print_rows(client.rows(finished.id), as_json=as_json)
        elif as_json:
            print_json(finished.result)
        else:
            _print_result(finished.result)


def refresh(
    table: Table,
    start: Start = None,
    end: End = None,
    everything: Annotated[
        bool, typer.Option("--all", help="The whole table, and its new definition.")
    ] = False,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Then what it touches downstream, and prove all of it.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --cascade: only show tables, partitions and bytes.")
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Backfill: recompute partitions A to B.

    By the table's own SQL, beside its stream, which goes on. A cascade ends with 1 where a table differs from
    its SQL afterwards.
    """
    directory = find_project(project)
    clause = " ALL" if everything else partition_clause(directory, [table], start, end, required=True)
    statement = f"ALTER MATERIALIZED TABLE {table} REFRESH{clause}"
    if dry_run and not cascade:
        raise UsageError("--dry-run shows a cascade: pass --cascade too")
    if cascade:
        run_cascade(lambda text: _run(project, text), statement, dry_run=dry_run, as_json=as_json)
        return
    result = _run(project, statement)
    if as_json:
        print_json(result)
        return
    print(
        f"{result['table']}: {len(result['partitions'])} partitions, {result['rows']:,} rows; "
        f"{result['inserted']:,} inserted, {result['updated']:,} updated, {result['deleted']:,} deleted; "
        f"version {result['version']}, {result['seconds']:.1f} s"
    )


def verify(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[T]...", help="Tables. Default: all.", show_default=False)
    ] = None,
    start: Start = None,
    end: End = None,
    no_source: Annotated[bool, typer.Option("--no-source", help="Leave out source against stg.")] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Recompute what differs, and prove it again.")
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Prove tables equal to their SQL and source.

    Every table is compared with its SQL in batch at its recorded frontier, every stg table also with its
    source at a known position. Ends with 1 on any difference, and shows the rows. With --repair the
    partitions that differ are recomputed, upstreams first, and 1 means that something differs still.
    """
    names = tables or []
    clause = partition_clause(find_project(project), names, start, end)
    text = "VERIFY" + (f" {', '.join(names)}" if names else "") + clause
    text += (" WITHOUT SOURCE" if no_source else "") + (" REPAIR" if repair else "")
    results = _run(project, text)
    if as_json:
        print_json(results)
    else:
        show_parity(results)
    if not all(r["equal"] and not r["error"] for r in results):
        raise typer.Exit(FAILED)


def explain(
    table: Table,
    history: Annotated[
        bool,
        typer.Option("--history", help="Past refreshes: what ran, why, what was expected, what it took."),
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Tell a table's freshness, mode and strategy, and why.

    Ends with 2 where its file holds an expression whose value stream and batch may not agree on: it is
    named with its line. Works from the files alone where the warehouse does not run.
    """
    from headrace.cli.planning import explain_table
    from headrace.gateway.errors import NotReachable, StatementInterrupted, StatementRefused

    planned = explain_table(load_settings(project), table, history=history)
    try:
        found = _run(project, f"EXPLAIN MATERIALIZED TABLE {planned.table}" + (" HISTORY" if history else ""))
    except (NotReachable, StatementRefused, StatementInterrupted) as error:
        found = planned.model_dump(mode="json")
        found["notes"].append(f"planned from the files: {str(error).splitlines()[0]}")
    else:
        found["notes"] += [n for n in planned.notes if n not in found["notes"]]
    if as_json:
        print_json(found)
        return
    print(f"{found['table']}")
    print(f"  freshness {found['freshness']}, by {found['freshness_origin']}")
    print(f"  mode      {found['refresh_mode']}: {found['mode_reason']}")
    if found["completion"]:
        print(f"  run mode  {found['run_mode']}")
        print(f"  complete  {found['completion']}")
    print(f"  strategy  {found['strategy'] or '?'}: {found['strategy_reason']}")
    for name, reason in found["refused"].items():
        print(f"  not       {name}: {reason}")
    print(f"  reads     {', '.join(found['upstreams'])}")
    if found["flow"]:
        print(f"  flow      {', '.join(found['flow'])}")
    for line in found["notes"]:
        print(f"  note      {line}")
    for d in found["decisions"]:
        print(f"  decided   {d['at'][:19]} {d['what']} {d['was']} → {d['became']}: {d['why']}")
    if history:
        _show_history(found["history"])


def _show_history(decisions: list[dict[str, Any]]) -> None:
    print()
    print_columns(
        ("chosen", "path", "seconds", "expected", "rows in", "rows out", "upstreams", "shadow", "why"),
        [
            (
                d["chosen"],
                d["path"],
                round(d["seconds"], 2),
                ", ".join(f"{name} {seconds:.2f}" for name, seconds in d["estimates"].items()),
                d["rows_in"],
                d["rows_out"],
                ", ".join(f"{name}: {change}" for name, change in d["changes"].items()),
                ", ".join(f"{name} {seconds:.2f}" for name, seconds in d["shadow"].items()),
                d["why"],
            )
            for d in decisions
        ],
    )


def suspend(table: Table, project: Project = None) -> None:
    """Stop a table; its neighbours go on."""
    _run(project, f"ALTER MATERIALIZED TABLE {table} SUSPEND")
    note(f"{table} is suspended: `headrace resume {table}` lets it catch up")


def resume(table: Table, project: Project = None) -> None:
    """Let a suspended table catch up and run."""
    _run(project, f"ALTER MATERIALIZED TABLE {table} RESUME")
    note(f"{table} is resumed: `headrace status` shows its lag")


def check(
    table: Table, start: Start = None, end: End = None, project: Project = None, as_json: Json = False
) -> None:
    """Test a table's constraints.

    Ends with 1 where one does not hold.
    """
    clause = partition_clause(find_project(project), [table], start, end)
    results = _run(project, f"CHECK {table}{clause}")
    if as_json:
        print_json(results)
    else:
        print_columns(
            ("constraint", "", "violations", "rows", "on violation"),
            [
                (
                    r["constraint"],
                    "holds" if r["passed"] else "BROKEN",
                    r["violations"],
                    r["rows"],
                    r["on_violation"],
                )
                for r in results
            ],
        )
    if not all(r["passed"] for r in results):
        raise typer.Exit(FAILED)


def dead_letters_list(
    table: Annotated[
        str | None, typer.Argument(metavar="[T]", help="One stg table. Default: all.", show_default=False)
    ] = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """List them, with offset and reason."""
    letters = _run(project, "SHOW DEAD LETTERS" + (f" {table}" if table else ""))
    if as_json:
        print_json(letters)
    else:
        _print_result(letters)


def _run(project: Path | None, text: str) -> Any:
    with open_client(project) as client:
        return progress.run(client, text).result


def _print_result(result: Any) -> None:
    if isinstance(result, list) and all(isinstance(r, dict) for r in result):
        headers = list(dict.fromkeys(key for r in result for key in r))
        print_columns(headers, [[r.get(h) for h in headers] for r in result])
        note(f"({len(result):,} row{'' if len(result) == 1 else 's'})")
    elif isinstance(result, dict):
        print_columns(("", ""), list(result.items()))
    else:
        print_json(result)
