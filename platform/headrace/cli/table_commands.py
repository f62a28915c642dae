"""sql, refresh, verify, explain, changes, suspend, resume, check, dead-letters: what the gateway answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import progress
from headrace.cli.errors import FAILED
from headrace.cli.options import (
    End,
    Json,
    Project,
    Start,
    Table,
    find_project,
    load_settings,
    partition_clause,
)
from headrace.cli.output import note, print_columns, print_json, print_rows

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.gateway.client import GatewayClient


def sql(
    statement: Annotated[
        str, typer.Argument(metavar="STATEMENT", help='E.g. "SELECT * FROM dws.user_hour".')
    ],
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Run one statement.

    SELECT …; SHOW MATERIALIZED TABLES; DESCRIBE or EXPLAIN MATERIALIZED TABLE T;
    ALTER MATERIALIZED TABLE T {SUSPEND | RESUME | REFRESH PARTITION (…)};
    VERIFY [T, …] [PARTITION (…)] [WITHOUT SOURCE]; CHECK T [PARTITION (…)];
    CHANGES T [FROM VERSION n]; SHOW DEAD LETTERS [T].
    """
    with _client(project) as client:
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
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Backfill: recompute partitions A to B.

    By the table's own SQL, beside its stream, which goes on.
    """
    directory = find_project(project)
    clause = " ALL" if everything else partition_clause(directory, [table], start, end, required=True)
    result = _run(project, f"ALTER MATERIALIZED TABLE {table} REFRESH{clause}")
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
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Prove tables equal to their SQL and source.

    Every table is compared with its SQL in batch at its recorded frontier, every stg table also with its
    source at a known position. Ends with 1 on any difference, and shows the rows.
    """
    names = tables or []
    clause = partition_clause(find_project(project), names, start, end)
    text = "VERIFY" + (f" {', '.join(names)}" if names else "") + clause
    results = _run(project, text + (" WITHOUT SOURCE" if no_source else ""))
    if as_json:
        print_json(results)
    else:
        _show_parity(results)
    if not all(r["equal"] and not r["error"] for r in results):
        raise typer.Exit(FAILED)


def explain(table: Table, project: Project = None, as_json: Json = False) -> None:
    """Tell a table's mode and strategy, and why."""
    found = _run(project, f"EXPLAIN MATERIALIZED TABLE {table}")
    if as_json:
        print_json(found)
        return
    print(f"{found['table']}")
    print(f"  mode      {found['refresh_mode']}: {found['mode_reason']}")
    print(f"  strategy  {found['strategy']}: {found['strategy_reason']}")
    for name, reason in found["refused"].items():
        print(f"  not       {name}: {reason}")
    print(f"  reads     {', '.join(found['upstreams'])}")
    if found["flow"]:
        print(f"  flow      {', '.join(found['flow'])}")
    for line in found["notes"]:
        print(f"  note      {line}")


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
    with _client(project) as client:
        return progress.run(client, text).result


def _client(project: Path | None) -> GatewayClient:
    from headrace.gateway.client import GatewayClient

    return GatewayClient(load_settings(project))


def _print_result(result: Any) -> None:
    if isinstance(result, list) and all(isinstance(r, dict) for r in result):
        headers = list(dict.fromkeys(key for r in result for key in r))
        print_columns(headers, [[r.get(h) for h in headers] for r in result])
        note(f"({len(result):,} row{'' if len(result) == 1 else 's'})")
    elif isinstance(result, dict):
        print_columns(("", ""), list(result.items()))
    else:
        print_json(result)


def _show_parity(results: list[dict[str, Any]]) -> None:
    print_columns(
        ("table", "against", "", "rows", "missing", "extra", "version", "seconds"),
        [
            (
                r["table"],
                r["against"],
                "ERROR" if r["error"] else "equal" if r["equal"] else "DIFFERS",
                r["rows"],
                r["missing"],
                r["extra"],
                r["version"],
                round(r["seconds"], 1),
            )
            for r in results
        ],
    )
    for r in results:
        if r["error"]:
            print(f"\n{r['table']} against {r['against']}: {r['error']}")
        elif not r["equal"]:
            where = f", partitions {', '.join(r['partitions'])}" if r["partitions"] else ""
            print(f"\n{r['table']} against {r['against']}: {r['missing'] + r['extra']:,} rows differ{where}")
            columns = list(dict.fromkeys(key for d in r["sample"] for key in d["row"]))
            print_columns(
                ("only in", *columns), [(d["side"], *(d["row"].get(c) for c in columns)) for d in r["sample"]]
            )
