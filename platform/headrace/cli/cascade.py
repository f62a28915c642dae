"""`refresh --cascade`: what will run is shown before it runs, and the proof after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from headrace.cli.errors import FAILED
from headrace.cli.output import print_columns, print_json
from headrace.cli.parity import show_parity


def run_cascade(run: Callable[[str], Any], statement: str, *, dry_run: bool, as_json: bool) -> None:
    """Submit the cascade of a REFRESH statement.

    Args:
        run: submits a statement and gives its result.
    Raises:
        typer.Exit: 1 where a table differs from its SQL after it.
    """
    if dry_run or not as_json:
        planned = run(f"{statement} CASCADE DRY RUN")
        if as_json:
            print_json(planned)
        else:
            _show_plan(planned)
        if dry_run:
            return
    result = run(f"{statement} CASCADE")
    proofs = [proof for table in result["tables"] for proof in table["proof"]]
    if as_json:
        print_json(result)
    else:
        show_refreshed(result["tables"])
        show_parity(proofs)
    if not all(p["equal"] and not p["error"] for p in proofs):
        raise typer.Exit(FAILED)


def _show_plan(planned: dict[str, Any]) -> None:
    rows = [
        (
            t["table"],
            f"{t['start']} … {t['end']}" if t["start"] else "all",
            len(t["partitions"]) or "",
            f"{t['bytes']:,}",
            t["policy"],
            t["reason"],
        )
        for t in planned["tables"]
    ]
    print_columns(("table", "range", "partitions", "bytes", "corrections", "why"), rows)


def show_refreshed(tables: list[dict[str, Any]]) -> None:
    """What was refreshed, a line a table."""
    done = [(t["table"], t["refreshed"]) for t in tables if t["refreshed"] is not None]
    print()
    print_columns(
        ("table", "rows", "inserted", "updated", "deleted", "version", "seconds"),
        [
            (name, r["rows"], r["inserted"], r["updated"], r["deleted"], r["version"], round(r["seconds"], 1))
            for name, r in done
        ],
    )
    print()
