"""Constraints and expectations of a table, whether they hold, and what breaks them."""

from __future__ import annotations

from typing import Any

from headrace.cli._shared.output import print_columns, print_records


def show_constraints(results: list[dict[str, Any]]) -> None:
    """A line a constraint, then some of the rows that break it."""
    print_columns(
        ("constraint", "", "violations", "rows", "on violation"),
        [
            (
                r["constraint"],
                "holds" if r["passed"] else "ERROR" if r["error"] else "BROKEN",
                r["violations"],
                r["rows"],
                r["on_violation"],
            )
            for r in results
        ],
    )
    for r in results:
        if r["error"]:
            print(f"\n{r['constraint']}: {r['error']}")
        elif r["sample"]:
            print(f"\n{r['constraint']} is broken by, among others:")
            print_records(r["sample"])
