"""Whether a message is of a key."""

from __future__ import annotations

import pytest

from headrace.sources.stream.keys import of_key

TYPES = {"grp": "int", "id": "string", "paid": "boolean", "day": "date"}


@pytest.mark.parametrize(
    ("raw", "values", "expected"),
    [
        (b'{"grp": 7}', {"grp": 7}, True),
        (b'{"grp": 8}', {"grp": 7}, False),
        (b'{"grp": 1, "id": "a"}', {"grp": 1, "id": "a"}, True),
        (b'{"grp": 1, "id": "b"}', {"grp": 1, "id": "a"}, False),
        (b'{"paid": true}', {"paid": True}, True),
        (b'{"day": 20000}', {"day": "2024-10-04"}, None),
        (b'{"grp": 1, "day": 20000}', {"grp": 2, "day": "2024-10-04"}, False),
        (b'{"other": 1}', {"grp": 1}, None),
        (b"7", {"grp": 7}, None),
        (b"\\xff", {"grp": 7}, None),
        (None, {"grp": 7}, None),
    ],
)
def test_it_is_told_where_it_can_be(
    raw: bytes | None, values: dict[str, object], expected: bool | None
) -> None:
    assert of_key(raw, values, TYPES) is expected
