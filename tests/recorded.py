"""How the recordings of `tests/scenarios/cdc` have a table's rows: whoever makes and whoever reads them."""

from __future__ import annotations

import json
from typing import Any


def shown(row: dict[str, Any]) -> str:
    """A row as text, whatever types its values have."""
    return json.dumps({column: repr(value) for column, value in row.items()}, sort_keys=True)
