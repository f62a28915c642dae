"""New values of TPC-H's columns, drawn near what the 22 queries ask for."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

Values = dict[str, Any]
Pick = Callable[[str], tuple[int, ...]]
"""The key of a random row of a table."""

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = ("BRAZIL", "CANADA", "FRANCE", "GERMANY", "INDIA", "KENYA", "SAUDI ARABIA")
TYPES = ("ECONOMY ANODIZED STEEL", "PROMO BURNISHED COPPER", "MEDIUM POLISHED TIN", "LARGE PLATED BRASS")
BRANDS = ("Brand#12", "Brand#23", "Brand#34", "Brand#45")
CONTAINERS = ("SM CASE", "MED BOX", "MED BAG", "LG PACK", "JUMBO JAR")
NAMES = ("forest green lace", "forest ivory", "dark green navy", "plum red")
COMMENTS = ("Customer fast Complaints", "special packages requests", "carefully final")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW")
MODES = ("MAIL", "SHIP", "AIR", "AIR REG", "TRUCK")
PREFIXES = ("13", "31", "23", "29", "30", "11")
PERIODS = ("1993-07-01", "1993-10-01", "1994-01-01", "1995-03-01", "1995-09-01", "1996-01-01", "1998-08-20")
"""First days of what the queries ask for, by ship or order date."""


KNOWN = (2, 3, 6, 7, 8, 20)
"""Keys that TPC-H gives to `NATIONS`, without KENYA."""


def _home(chance: random.Random, pick: Pick) -> int:
    """A nation's key, mostly of one that some query asks for; it may be gone by now."""
    return chance.choice(KNOWN) if chance.random() < 0.7 else pick("nation")[0]


def _money(chance: random.Random, low: int, high: int) -> Decimal:
    return Decimal(chance.randint(low * 100, high * 100)).scaleb(-2)


def _day(chance: random.Random) -> date:
    return date.fromisoformat(chance.choice(PERIODS)) + timedelta(days=chance.randint(-10, 100))


def _region(chance: random.Random, pick: Pick) -> Values:
    if chance.random() < 0.3:
        return {"r_name": chance.choice(REGIONS)}
    return {"r_comment": chance.choice(COMMENTS)}


def _nation(chance: random.Random, pick: Pick) -> Values:
    return chance.choice(
        ({"n_name": chance.choice(NATIONS)}, {"n_regionkey": pick("region")[0]}, {"n_comment": "moved"})
    )


def _supplier(chance: random.Random, pick: Pick) -> Values:
    return chance.choice(
        (
            {"s_nationkey": _home(chance, pick)},
            {"s_comment": chance.choice(COMMENTS)},
            {"s_acctbal": _money(chance, -999, 9999)},
            {"s_name": f"Supplier#{chance.randint(1, 99):09}"},
        )
    )


def _customer(chance: random.Random, pick: Pick) -> Values:
    return chance.choice(
        (
            {"c_nationkey": _home(chance, pick)},
            {"c_mktsegment": chance.choice(("BUILDING", "MACHINERY"))},
            {"c_acctbal": _money(chance, -999, 9999)},
            {"c_phone": f"{chance.choice(PREFIXES)}-{chance.randint(100, 999)}-123-4567"},
        )
    )


def _part(chance: random.Random, pick: Pick) -> Values:
    return chance.choice(
        (
            {"p_type": chance.choice(TYPES)},
            {"p_brand": chance.choice(BRANDS), "p_container": chance.choice(CONTAINERS)},
            {"p_size": chance.choice((3, 9, 14, 15, 23, 49))},
            {"p_name": chance.choice(NAMES)},
        )
    )


def _partsupp(chance: random.Random, pick: Pick) -> Values:
    return chance.choice(
        ({"ps_supplycost": _money(chance, 1, 1000)}, {"ps_availqty": chance.choice((1, 40, 9999))})
    )


def _orders(chance: random.Random, pick: Pick) -> Values:
    return chance.choice(
        (
            {"o_custkey": pick("customer")[0]},
            {"o_orderdate": _day(chance)},
            {"o_orderpriority": chance.choice(PRIORITIES)},
            {"o_orderstatus": chance.choice("FOP")},
            {"o_totalprice": _money(chance, 900, 500_000)},
            {"o_comment": chance.choice(COMMENTS)},
        )
    )


def _lineitem(chance: random.Random, pick: Pick) -> Values:
    part, supplier = pick("partsupp")
    return chance.choice(
        (
            {"l_quantity": Decimal(chance.choice((1, 5, 15, 23, 50)))},
            {"l_extendedprice": _money(chance, 900, 90_000)},
            {"l_discount": Decimal(chance.randint(0, 10)).scaleb(-2)},
            {"l_tax": Decimal(chance.randint(0, 8)).scaleb(-2)},
            {"l_returnflag": chance.choice("ANR"), "l_linestatus": chance.choice("FO")},
            {"l_shipdate": _day(chance)},
            {"l_commitdate": _day(chance), "l_receiptdate": _day(chance)},
            {"l_shipmode": chance.choice(MODES), "l_shipinstruct": "DELIVER IN PERSON"},
            {"l_partkey": part, "l_suppkey": supplier},
        )
    )


MUTATORS: Mapping[str, Callable[[random.Random, Pick], Values]] = {
    "region": _region,
    "nation": _nation,
    "supplier": _supplier,
    "customer": _customer,
    "part": _part,
    "partsupp": _partsupp,
    "orders": _orders,
    "lineitem": _lineitem,
}
"""What may change in a row of each table, in one step."""
