"""The keys of the tables, and a table's content folded from its changes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.live.contender import DWD, DWS, STG

KEYS = {STG: ("order_id",), DWD: ("order_id",), DWS: ("user_id", "logdate")}
SHOP_KEYS = {
    "stg.users": ("user_id",),
    "stg.products": ("product_id",),
    "stg.orders": ("order_id",),
    "stg.order_items": ("item_id",),
    "stg.page_words": ("word_id",),
    "dwd.orders": ("order_id",),
    "dwd.order_items": ("item_id",),
    "dwd.partition_word_count": ("word_id",),
    "dws.user_hour": ("user_id", "logdate"),
    "dws.gmv_hour": ("logdate",),
    "dws.gmv_day": ("day",),
    "dws.gmv_compared": ("logdate",),
    "dws.top_products": ("logdate", "rank"),
    "dws.partition_word_count": ("logdate", "user_id"),
}
"""Of the demo's tables."""


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
