"""Values as JSON that loses nothing: what JSON has no exact form for becomes a string."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from pydantic import JsonValue


def encode(value: object) -> JsonValue:
    """`value` as plain JSON: Decimal, dates, times and NaN as text, bytes as hexadecimal digits."""
    match value:
        case Enum():
            return encode(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(Decimal(value))
        case Decimal():
            return f"{value:f}" if value.is_finite() else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return f"{Decimal(value // timedelta(microseconds=1)).scaleb(-6):f}"
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case Path() | UUID():
            return str(value)
        case Mapping():
            return {_key(k): encode(v) for k, v in value.items()}
        case list() | tuple() | set() | frozenset():
            return [encode(v) for v in value]
        case _ if (dump := getattr(value, "model_dump", None)) is not None:
            return encode(dump())  # by name: pydantic is not needed to print `--help`
        case _:
            raise TypeError(f"a {type(value).__name__} has no exact JSON form")


def _key(key: object) -> str:
    encoded = encode(key)
    return encoded if isinstance(encoded, str) else str(encoded)
