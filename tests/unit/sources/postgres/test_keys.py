"""By which columns rows are told apart, and what is said where nothing does."""

from __future__ import annotations

import pytest

from headrace.sources.postgres.keys import UniqueIndex, row_key

PRIMARY = UniqueIndex("orders_pkey", ("id",), primary=True)
IDENTITY = UniqueIndex("by_code", ("shop", "code"), identity=True)
OTHER = UniqueIndex("a_first", ("mail",))
NULLABLE = UniqueIndex("by_mail", ("mail",), identity=True, plain=False)


@pytest.mark.parametrize(
    ("indexes", "full", "declared", "key"),
    [
        ([PRIMARY], False, (), ("id",)),
        ([OTHER, PRIMARY], False, (), ("id",)),
        ([PRIMARY], False, ("id",), ("id",)),
        ([IDENTITY], False, (), ("shop", "code")),
        ([OTHER], True, (), ("mail",)),
        ([OTHER, IDENTITY], False, ("code", "shop"), ("shop", "code")),
        ([PRIMARY, IDENTITY], False, ("shop", "code"), ("shop", "code")),
        ([PRIMARY, OTHER], True, ("mail",), ("mail",)),
    ],
)
def test_what_the_key_is(
    indexes: list[UniqueIndex], full: bool, declared: tuple[str, ...], key: tuple[str, ...]
) -> None:
    found = row_key("public.orders", '"public"."orders"', indexes, full=full, declared=declared)
    assert (found.columns, found.refused) == (key, "")


@pytest.mark.parametrize(
    ("indexes", "full", "declared", "mends"),
    [
        ([], False, (), 'ALTER TABLE "public"."orders" ADD PRIMARY KEY (…)'),
        ([], True, (), 'ALTER TABLE "public"."orders" ADD PRIMARY KEY (…)'),
        ([OTHER], False, (), "REPLICA IDENTITY USING INDEX …"),
        ([NULLABLE], True, (), "ADD PRIMARY KEY"),
        ([IDENTITY, OTHER], False, (), '"message.key.columns": "public.orders:shop,code"'),
        ([PRIMARY], False, ("mail",), "no unique index says"),
        ([PRIMARY, OTHER], False, ("mail",), 'REPLICA IDENTITY USING INDEX "a_first"'),
    ],
)
def test_where_there_is_none(
    indexes: list[UniqueIndex], full: bool, declared: tuple[str, ...], mends: str
) -> None:
    found = row_key("public.orders", '"public"."orders"', indexes, full=full, declared=declared)
    assert found.columns == () and mends in found.refused
