"""A moment as people write it."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(text: str) -> datetime:
    """`2026-11-22 19:30:00.250+02:00`; without an offset it is UTC. ValueError: it is none, or only a day."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"`{text}` is no time") from None
    if len(text.strip()) <= len("2026-11-22"):
        raise ValueError(f"`{text}` is a day and no time")
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
