"""Values as JSON: nothing is rounded."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.encoding import encode
from headrace.results import DifferingRow


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("12345678901234567890.123456789012345678"), "12345678901234567890.123456789012345678"),
        (Decimal("1.10"), "1.10"),
        (Decimal("1E+3"), "1000"),
        (Decimal("NaN"), "NaN"),
        (2**63 - 1, 2**63 - 1),
        (True, True),
        (0.1, 0.1),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC), "2024-01-01T00:00:00.000001+00:00"),
        (datetime(2024, 1, 1), "2024-01-01T00:00:00"),
        (date(2024, 1, 1), "2024-01-01"),
        (timedelta(days=1, microseconds=1), "86400.000001"),
        (b"\x00\xff", "00ff"),
        ({"a": [(1, Decimal("2.0"))]}, {"a": [[1, "2.0"]]}),
        ({1: None}, {"1": None}),
        (DifferingRow(side="table", row={"x": Decimal("0.10")}), {"side": "table", "row": {"x": "0.10"}}),
    ],
)
def test_encode(value: object, expected: object) -> None:
    encoded = encode(value)
    assert encoded == expected and type(encoded) is type(expected)
    json.dumps(encoded, allow_nan=False)


def test_rows_of_every_kind() -> None:
    rows = pa.table(
        {
            "amount": pa.array([Decimal("9999999999.99"), None], pa.decimal128(12, 2)),
            "at": pa.array([datetime(2024, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
            "raw": pa.array([b"\x01", None], pa.binary()),
            "tags": pa.array([{"k": 1}, None], pa.struct([("k", pa.int64())])),
        }
    )
    assert encode(rows.to_pylist()) == [
        {"amount": "9999999999.99", "at": "2024-01-01T00:00:00+00:00", "raw": "01", "tags": {"k": 1}},
        {"amount": None, "at": None, "raw": None, "tags": None},
    ]


def test_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="complex has no exact JSON form"):
        encode(1j)
