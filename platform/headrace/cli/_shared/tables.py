"""What is to change of tables, and what was refreshed."""

from __future__ import annotations

from typing import Any

from headrace.cli._shared.output import note, print_columns
from headrace.cli._shared.parity import show_parity


def show_changes(tables: list[dict[str, Any]]) -> None:
    """What is to change, a line a table."""
    if not tables:
        note("nothing differs from what was applied last")
        return
    rows = [
        (
            t["table"],
            t["change"],
            ", ".join(t["what"]) + ("; begins again" if t.get("begins_again") else ""),
            t["partitions"] or "",
            f"{t['bytes']:,}",
            ", ".join(t["downstream"]),
        )
        for t in tables
    ]
    print_columns(("table", "change", "of", "partitions", "bytes", "downstream"), rows)


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


def show_refresh(result: dict[str, Any]) -> None:
    """What one backfill did, on a line."""
    print(
        f"{result['table']}: {len(result['partitions'])} partitions, {result['rows']:,} rows; "
        f"{result['inserted']:,} inserted, {result['updated']:,} updated, {result['deleted']:,} deleted; "
        f"version {result['version']}, {result['seconds']:.1f} s"
    )
    if not any(result[count] for count in ("rows", "inserted", "updated", "deleted")):
        where = f"from {result['start']} to {result['end']}" if result["start"] else "of it"
        note(f"the table has no rows {where}, and its upstreams give none")


def show_cascade(cascade: dict[str, Any]) -> None:
    """What a cascade would run, after a dry run; else what was refreshed, and the proof."""
    if not cascade["dry_run"]:
        show_refreshed(cascade["tables"])
        show_parity([proof for table in cascade["tables"] for proof in table["proof"]])
        return
    rows = [
        (
            t["table"],
            f"{t['start']} … {t['end']}" if t["start"] else "all",
            len(t["partitions"]) or "",
            f"{t['bytes']:,}",
            t["policy"],
            t["reason"],
        )
        for t in cascade["tables"]
    ]
    print_columns(("table", "range", "partitions", "bytes", "corrections", "why"), rows)


def show_applied(result: dict[str, Any]) -> None:
    """What `APPLY` and the statements that edit one file would do, after a dry run; else what they did."""
    if result["dry_run"]:
        show_changes(result["tables"])
        for why in result["halts"]:
            note(f"does not run: {why}")
        return
    if result["proofs"]:
        show_parity(result["proofs"])
    if any(t["refreshed"] is not None for t in result["tables"]):
        show_refreshed(result["tables"])
    note(f"applied in {result['seconds']:.1f} s")
