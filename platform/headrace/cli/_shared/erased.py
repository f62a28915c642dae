"""What an erasure has found and left."""

from __future__ import annotations

from typing import Any

from headrace.cli._shared.output import note, print_columns


def show_erased(result: dict[str, Any]) -> None:
    """A line a place, and what was not reached."""
    print_columns(
        ("table", "place", "what", "found", "left"),
        [(p["table"], p["place"], p["what"], p["found"], p["left"]) for p in result["places"]],
    )
    if any(p["kept"] and p["left"] for p in result["places"]):
        note("a tombstone stays: the key, and the place of its delete, so that nothing older brings it back")
    for text in result["notes"]:
        note(text)
    if result["dry_run"]:
        if result["in_source"]:
            note("the source has the row: delete it there first")
        note("nothing was changed: the same without a dry run does it")
