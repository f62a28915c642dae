"""headrace: a database's changes into a layered Spark warehouse, stream and batch from one SQL text.

`headrace.sql(statement)` runs a statement; `headrace.subscribe(table)` yields a table's changes as Arrow
tables: see docs/changes.md.
"""

from __future__ import annotations

from headrace.statement import sql
from headrace.subscription import ChangeBatch, subscribe

__all__ = ["ChangeBatch", "sql", "subscribe"]
__version__ = "0.1.0"
