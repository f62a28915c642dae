"""What is remembered of the sources: with the tables that it is about, whoever serves them."""

from __future__ import annotations

from headrace.settings import Settings
from headrace.storage.location import Location, replace_text

SNAPSHOTS, SLOTS = "snapshots", "slots"
"""Bulk snapshots, and streams that were made anew: a folder each, a small file a source."""


FOLDER = "_sources"
"""In the warehouse."""


def records(settings: Settings) -> Location:
    """The folder of these. What an earlier version kept beside the services' state comes along."""
    place = settings.warehouse / FOLDER
    for kind in (SNAPSHOTS, SLOTS):
        for file in (settings.state / kind).glob("*.json"):
            moved = place / kind / file.name
            if not moved.is_file():
                moved.parent.mkdir(parents=True, exist_ok=True)
                replace_text(moved, file.read_text(encoding="utf-8"))
            file.unlink()
    return place
