"""Values and names as Spark SQL has them in a text."""

from __future__ import annotations


def text_literal(value: str) -> str:
    """A string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted(name: str) -> str:
    """An identifier in backquotes."""
    return "`" + name.replace("`", "``") + "`"
