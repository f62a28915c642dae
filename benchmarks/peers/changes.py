"""The chain's keys, and a table's content folded from its changes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.live.contender import DWD, DWS, STG

KEYS = {STG: ("order_id",), DWD: ("order_id",), DWS: ("user_id", "logdate")}


def last_of_each(changes: pa.Table, key: Sequence[str], order: str) -> pa.Table:
    """The last change of each key.

    Args:
        order: the column by which a key's changes follow each other.
    """
    sort_keys = [(name, "ascending") for name in (*key, order)]
    changes = changes.take(pc.sort_indices(changes, sort_keys=sort_keys)).combine_chunks()
    differs = pa.array([False] * max(0, changes.num_rows - 1), pa.bool_())
    for name in key:
        column = changes[name].combine_chunks()
        differs = pc.or_(differs, pc.not_equal(column[:-1], column[1:]))
    return changes.filter(pa.concat_arrays([differs, pa.array([True] * min(1, changes.num_rows))]))
