"""headrace: a database's changes into a layered Spark warehouse, stream and batch from one SQL text.

`headrace.sql(statement)` runs a statement; `headrace.subscribe(table)` yields a table's changes as Arrow
tables: see docs/changes.md. `headrace.Layers` is the component by which Dagster projects take the tables in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.statement import sql
from headrace.subscription import ChangeBatch, subscribe

if TYPE_CHECKING:
    from headrace.orchestration.components import Layers

__all__ = ["ChangeBatch", "Layers", "sql", "subscribe"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`Layers`, without Dagster's seconds for everybody else."""
    if name != "Layers":
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    from headrace.orchestration.components import Layers

    return Layers


def __dir__() -> list[str]:
    """With what is loaded when it is asked for: `dg` looks here for components."""
    return sorted({*globals(), *__all__})
