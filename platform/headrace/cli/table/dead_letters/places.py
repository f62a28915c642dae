"""Which of a table's dead letters a command is about."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.gateway.literals import literal

At = Annotated[
    list[str] | None,
    typer.Option(
        "--at", metavar="P:O", help="One of them, by partition and offset. Repeatable. Default: all."
    ),
]


def clause(places: list[str] | None) -> str:
    """As the statement has it."""
    quoted = ", ".join(map(literal, places or ()))
    return f" AT {quoted}" if quoted else ""
