"""Seconds as a person reads them."""

from __future__ import annotations


def duration(seconds: float | None) -> str:
    """Seconds as a short text."""
    if seconds is None:
        return "–"
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} d"
