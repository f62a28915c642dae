"""What a rewind brings back."""

from __future__ import annotations

from typing import Any

from headrace.cli._shared.output import moment, note, print_columns


def show_rewind(result: dict[str, Any]) -> None:
    """A line a table, and what comes next."""
    print_columns(
        ("table", "from", "to", "committed", "inserted", "updated", "deleted", "frontier"),
        [
            (
                t["table"],
                t["from_version"],
                t["to_version"],
                moment(t["committed_at"]),
                t["inserted"],
                t["updated"],
                t["deleted"],
                _frontier(t["frontier"]),
            )
            for t in result["tables"]
        ],
    )
    if result["dry_run"]:
        note("nothing was changed: leave out --dry-run")
    elif not result["suspended"]:
        note("it stands there already, nothing was changed")
    for name in result["suspended"]:
        note(f"{name} is suspended: `headrace resume {name}` lets it go on from there")


def _frontier(frontier: dict[str, Any]) -> str:
    """`topic:partition@offset` or `table@version`, each."""
    parts = []
    for name, at in frontier.items():
        parts += [f"{name}:{p}@{o}" for p, o in at.items()] if isinstance(at, dict) else [f"{name}@{at}"]
    return ", ".join(parts)
