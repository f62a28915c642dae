"""explain: a table's freshness, mode and strategy, and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli._shared.options import Json, Project, Table, load_settings
from headrace.cli._shared.output import print_columns, print_json
from headrace.cli._shared.progress import run_statement


def explain(
    table: Table,
    history: Annotated[
        bool,
        typer.Option(
            "--history",
            help="Past refreshes: what ran, why, what was expected, what it took; and what each commit did.",
        ),
    ] = False,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Tell a table's freshness, mode and strategy, and why.

    Ends with 2 where its file holds an expression whose value stream and batch may not agree on: it is
    named with its line. Works from the files alone where the warehouse does not run.
    """
    from headrace.cli._shared.planning import explain_table
    from headrace.gateway.errors import NotReachable, StatementInterrupted, StatementRefused

    planned = explain_table(load_settings(project), table, history=history)
    try:
        found = run_statement(
            project, f"EXPLAIN MATERIALIZED TABLE {planned.table}" + (" HISTORY" if history else "")
        )
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
        if found["accounts"]:
            _show_accounts(found["accounts"])


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


def _show_accounts(accounts: list[dict[str, Any]]) -> None:
    print()
    print_columns(
        ("version", "mode", "rows before", "inserted", "updated", "deleted", "rows after", "read"),
        [
            (
                a["version"],
                a["mode"],
                a["before"] + a["miscounted"],
                a["inserted"],
                a["updated"],
                a["deleted"],
                a["after"],
                _read(a),
            )
            for a in accounts
        ],
    )


def _read(account: dict[str, Any]) -> str:
    """Change rows of a derived table's upstreams, or what became of a stg table's events."""
    events = account["events"]
    numbers = {k: n for k, n in events.items() if n and k not in ("inserted", "updated", "deleted")}
    parts = [f"{name} {n}" for name, n in {**account["reads"], **numbers}.items() if not isinstance(n, dict)]
    parts += [f"quarantined by {rule} {n}" for rule, n in (numbers.get("quarantined") or {}).items()]
    return ", ".join(parts)
