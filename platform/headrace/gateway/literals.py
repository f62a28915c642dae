"""Strings as statements have them."""

from __future__ import annotations


def literal(text: str) -> str:
    """A string in quotes, whatever it holds."""
    return "'" + text.replace("'", "''") + "'"
