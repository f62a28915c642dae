"""What is to change of tables, and what was refreshed."""

from __future__ import annotations

from typing import Any

from headrace.cli._shared.output import note, print_columns


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
