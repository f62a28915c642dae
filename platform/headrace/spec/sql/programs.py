"""What in a query runs more than SQL."""

from __future__ import annotations

REFLECTION = frozenset({"java_method", "reflect", "try_reflect"})
"""Functions that run Java code of the caller's choice where the query runs."""
