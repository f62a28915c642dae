from __future__ import annotations

from itertools import pairwise

import pytest

from headrace.errors import TerminalError
from headrace.sources.postgres.bulk.choice import SnapshotBy, TableFacts, choose
from headrace.sources.postgres.bulk.ranges import PageRange, page_ranges
from headrace.spec.model import SourceTable

CONFIG = {
    "plugin.name": "pgoutput",
    "slot.name": "headrace_shop",
    "publication.autocreate.mode": "filtered",
    "snapshot.mode": "initial",
    "decimal.handling.mode": "string",
    "time.precision.mode": "microseconds",
    "binary.handling.mode": "base64",
}


def facts(rows: int, hindrance: str | None = None) -> TableFacts:
    return TableFacts(SourceTable("shop", "public", "orders"), rows, 10, 81_920, hindrance)


def bulk(
    setting: SnapshotBy,
    rows: int,
    *,
    hindrance: str | None = None,
    slot_exists: bool = False,
    drop: str = "",
    **config: str,
) -> bool:
    whole = {k: v for k, v in CONFIG.items() if k != drop} | {
        k.replace("_", "."): v for k, v in config.items()
    }
    tables = [facts(rows, hindrance), facts(0)]
    return choose(setting, whole, tables, bulk_rows=1_000, slot_exists=slot_exists).bulk


def test_auto_goes_by_the_rows_of_all_tables() -> None:
    assert not bulk("auto", 999)
    assert bulk("auto", 1_000)
    assert bulk("bulk", 0)
    assert not bulk("connector", 10**9)


def test_what_the_connector_file_says_is_respected() -> None:
    assert not bulk("bulk", 10**9, snapshot_mode="no_data")
    assert bulk("bulk", 0, drop="snapshot.mode")  # Debezium's own default


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ({"hindrance": "column `a` is a money"}, "`shop.public.orders`: column `a` is a money"),
        ({"slot_exists": True}, "`headrace_shop` exists"),
        ({"transforms": "unwrap"}, "says `transforms`"),
        ({"drop": "decimal.handling.mode"}, "needs decimal.handling.mode=string"),
        ({"column_exclude_list": "public.orders.note"}, "says `column.exclude.list`"),
        ({"plugin_name": "decoderbufs"}, "needs plugin.name=pgoutput"),
    ],
)
def test_what_cannot_be_copied_exactly_is_the_connectors_to_read(why: dict[str, str], said: str) -> None:
    assert not bulk("auto", 10**6, **why)  # type: ignore[arg-type]
    with pytest.raises(TerminalError) as refused:
        bulk("bulk", 10**6, **why)  # type: ignore[arg-type]
    assert said in str(refused.value) and 'snapshot = "connector"' in str(refused.value)


@pytest.mark.parametrize(("pages", "size"), [(0, 0), (1, 8192), (10, 81_920), (1000, 8_192_000), (3, 10**9)])
def test_ranges_cover_every_page_once_and_what_is_added(pages: int, size: int) -> None:
    ranges = page_ranges(pages, size, at_most=1_000_000)
    assert ranges[0].first == 0 and ranges[-1].end is None
    assert all(a.end == b.first for a, b in pairwise(ranges))
    assert len(ranges) <= max(1, pages)
    assert all(r.end is None or r.end > r.first for r in ranges)


def test_a_range_is_of_about_the_size_wanted() -> None:
    assert len(page_ranges(1000, 8_192_000, at_most=1_000_000)) == 9
    assert PageRange(3, 7).condition == "ctid >= '(3,0)' AND ctid < '(7,0)'"
    assert PageRange(7, None).condition == "ctid >= '(7,0)'"
