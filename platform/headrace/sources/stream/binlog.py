"""Places in a binary log of MySQL or MariaDB as numbers that grow with it, and sort as PostgreSQL's do.

From the highest bit: the file's number, the event's place in it in units of 16 bytes, which no two events
share, and the row's number within its transaction. MariaDB gives all rows of a transaction the place of its
beginning; rows of a snapshot have that of the snapshot, and number 0. From 2^14 on, 2^9 rows share a number:
they are of one transaction, which is applied at once, and their offsets in Kafka tell them apart.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

UNIT_BITS = 4
ORDER_BITS = 15
OFFSET_BITS = 32 - UNIT_BITS
FILE_BIT = ORDER_BITS + OFFSET_BITS
_EXACT, _SHARED = 1 << (ORDER_BITS - 1), 9


def number(file: str, offset: int, order: int = 0) -> int:
    """
    Args:
        file: `mysql-bin.000042`.
        offset: bytes.
        order: of the row in its transaction, from 1 on; 0: before all of them.
    """
    base = (int(file.rpartition(".")[2]) << FILE_BIT) + (offset >> UNIT_BITS << ORDER_BITS)
    return base + min(order, _EXACT) + min(max(order - _EXACT, 0) >> _SHARED, _EXACT - 1)


def sql(file: str, offset: str, order: str) -> str:
    """A Spark SQL expression for `number` of three others; NULL where one of the first two is."""
    own = f"coalesce({order}, 0L)"
    return (
        f"shiftleft(cast(substring_index({file}, '.', -1) AS bigint), {FILE_BIT}) "
        f"+ shiftleft(shiftright({offset}, {UNIT_BITS}), {ORDER_BITS}) + least({own}, {_EXACT}L) "
        f"+ least(shiftright(greatest({own} - {_EXACT}L, 0L), {_SHARED}), {_EXACT - 1}L)"
    )


def arrow(file: pa.ChunkedArray, offset: pa.ChunkedArray, order: pa.ChunkedArray) -> pa.ChunkedArray:
    """`number` of columns. Raises pa.ArrowInvalid where a file has no number."""
    numbers = pc.replace_substring_regex(file, r"^.*\.", "").cast(pa.int64())
    own = pc.fill_null(order, 0)
    places = pc.shift_left(pc.shift_right(offset, UNIT_BITS), ORDER_BITS)
    beyond = pc.shift_right(pc.max_element_wise(pc.subtract(own, _EXACT), _int(0)), _SHARED)
    within = pc.add(pc.min_element_wise(own, _int(_EXACT)), pc.min_element_wise(beyond, _int(_EXACT - 1)))
    return pc.add(pc.add(pc.shift_left(numbers, FILE_BIT), places), within)


def place(value: int) -> str:
    """The file's number and about the bytes of a place, as a person reads them."""
    return f"{value >> FILE_BIT:06}:{(value >> ORDER_BITS & ((1 << OFFSET_BITS) - 1)) << UNIT_BITS}"


def _int(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int64())
