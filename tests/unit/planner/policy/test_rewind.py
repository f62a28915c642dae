"""Which tables a rewind takes back, to which versions, and everything that it refuses."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headrace.planner.policy.rewind import Past, RewindRefused, Standing, Step, plan
from headrace.store.record.rewinds import NEWEST, descends, live_ranges

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOW = NOON + timedelta(hours=5)
TOPIC = "shop.public.orders"


def at(version: int) -> datetime:
    return NOON + timedelta(minutes=version)


def stg(name: str = "stg.orders", head: int = 5, **other: object) -> Standing:
    past = tuple(Past(v, at(v), "text", {}, {TOPIC: {0: 10 * v}}) for v in range(1, head + 1))
    standing = Standing(name, head, "text", "text", past, topic={TOPIC: {0: (0, 99)}})
    return replace(standing, **other)  # type: ignore[arg-type]


def derived(name: str, *frontiers: dict[str, int], **other: object) -> Standing:
    """A table whose version n has the n-th frontier."""
    past = tuple(Past(v, at(v), "text", f, {}) for v, f in enumerate(frontiers, 1))
    upstreams = tuple(frontiers[-1]) if frontiers else ("stg.orders",)
    standing = Standing(name, len(past), "text", "text", past, upstreams=upstreams)
    return replace(standing, **other)  # type: ignore[arg-type]


def planned(
    *tables: Standing, to: int | datetime = 3, cascade: bool = True, table: str = "stg.orders"
) -> list[Step]:
    return plan({t.name: t for t in tables}, table, to, cascade=cascade, now=NOW)


def targets(steps: list[Step]) -> dict[str, int]:
    return {step.table: step.to.version for step in steps}


PAID = derived("dwd.paid", *({"stg.orders": v} for v in (1, 3, 4, 5)))
HOURLY = derived("dws.hourly", *({"dwd.paid": v} for v in (1, 2, 3, 4)))


def test_every_dependant_goes_to_the_newest_version_that_had_seen_no_more() -> None:
    steps = planned(stg(), PAID, HOURLY)
    assert targets(steps) == {"stg.orders": 3, "dwd.paid": 2, "dws.hourly": 2}
    assert [step.current for step in steps] == [5, 4, 4]
    assert targets(planned(stg(), PAID, HOURLY, to=2)) == {"stg.orders": 2, "dwd.paid": 1, "dws.hourly": 1}


def test_a_derived_table_goes_back_without_its_upstreams() -> None:
    assert targets(planned(stg(), PAID, HOURLY, table="dwd.paid")) == {"dwd.paid": 3, "dws.hourly": 3}


def test_a_table_that_lags_or_holds_nothing_stays() -> None:
    lagging, empty = derived("dws.slow", {"dwd.paid": 2}), derived("dws.none", head=0)
    found = planned(stg(), PAID, lagging, replace(empty, upstreams=("dwd.paid",)))
    assert targets(found) == {"stg.orders": 3, "dwd.paid": 2}


def test_with_several_upstreams_all_of_them_count_that_go_back() -> None:
    """The users stay as they are, the cities must not have seen later orders by either way."""
    users = stg("stg.users", 9)
    cuts = ((1, 1, 1), (2, 3, 4), (3, 3, 5), (2, 4, 6), (4, 5, 9))
    cities = derived("dws.cities", *({"dwd.paid": p, "stg.orders": o, "stg.users": u} for p, o, u in cuts))
    assert targets(planned(stg(), users, PAID, cities))["dws.cities"] == 2


def test_a_time_means_the_newest_version_of_then() -> None:
    assert targets(planned(stg(), to=at(3) + timedelta(seconds=59))) == {"stg.orders": 3}
    assert targets(planned(stg(), to=at(3))) == {"stg.orders": 3}
    assert targets(planned(stg(), to=at(3).astimezone())) == {"stg.orders": 3}


def test_the_present_version_is_there_already() -> None:
    assert [step.done for step in planned(stg(), PAID, to=5)] == [True]


def test_cut_short_the_rest_goes_back() -> None:
    rewound = stg(head=6, rewinds=((6, 3),))
    rewound = replace(rewound, past=(*rewound.past[:5], replace(rewound.past[2], version=6, at=NOW)))
    steps = planned(rewound, PAID, HOURLY)
    assert [(s.table, s.to.version, s.done) for s in steps] == [
        ("stg.orders", 3, True), ("dwd.paid", 2, False), ("dws.hourly", 2, False),
    ]  # fmt: skip
    followed = derived("dwd.paid", *({"stg.orders": v} for v in (1, 3, 4, 5, 6)))
    assert targets(planned(rewound, followed)) == {"stg.orders": 3}


def test_a_rewind_is_taken_back_and_what_was_on_the_other_road_does_not_count() -> None:
    orders = stg(head=8, rewinds=((6, 3),))
    paid = derived("dwd.paid", *({"stg.orders": v} for v in (1, 3, 4, 5, 3, 7, 8)), rewinds=((5, 2),))
    assert targets(planned(orders, paid, to=7)) == {"stg.orders": 7, "dwd.paid": 6}
    assert targets(planned(orders, paid, to=6)) == {"stg.orders": 6, "dwd.paid": 5}
    assert targets(planned(orders, paid, to=5)) == {"stg.orders": 5, "dwd.paid": 4}
    assert targets(planned(orders, paid, to=4)) == {"stg.orders": 4, "dwd.paid": 3}


FROM_3 = stg(past=stg().past[2:])
WITHOUT_3 = stg(past=(*stg().past[:2], *stg().past[3:]))
LATE = derived("dwd.paid", {"stg.orders": 4})


@pytest.mark.parametrize(
    ("tables", "options", "code", "words"),
    [
        ((stg(),), {"to": 0}, "UNKNOWN_VERSION", "empty at version 0"),
        ((stg(),), {"to": 6}, "UNKNOWN_VERSION", "no such version. It is at version 5"),
        ((stg(),), {"to": NOW + timedelta(seconds=1)}, "UNKNOWN_VERSION", "in the future"),
        ((stg(),), {"to": NOON}, "BEYOND_RETENTION", "the oldest on record is 1"),
        ((FROM_3,), {"to": 2}, "BEYOND_RETENTION", "nearest that are: 3"),
        ((WITHOUT_3,), {}, "BEYOND_RETENTION", "nearest that are: 2 and 4"),
        ((stg(removed=4),), {}, "BEYOND_RETENTION", "oldest version that it can go back to is 4"),
        ((stg(readable=4),), {}, "BEYOND_RETENTION", "oldest version that it can go back to is 4"),
        ((stg(loaded=4),), {}, "BEYOND_RETENTION", "came past the topic"),
        ((stg(topic={TOPIC: {0: (31, 99)}}),), {}, "BEYOND_RETENTION", "Kafka holds 31 to 99"),
        ((stg(topic={TOPIC: {0: (0, 29)}}),), {}, "BEYOND_RETENTION", "Kafka holds 0 to 29"),
        ((stg(topic={TOPIC: {0: (0, 99), 1: (7, 9)}}),), {}, "BEYOND_RETENTION", "partition 1"),
        ((stg(template="new"),), {}, "DEFINITION_CHANGED", "`headrace apply`"),
        ((stg(template="new", made_by="new"),), {}, "DEFINITION_CHANGED", "T ROLLBACK"),
        ((stg(), PAID), {"cascade": False}, "INVALID_CASCADE_CONFIGURATION", "T --to-version 3 --cascade"),
        (
            (stg(), PAID, HOURLY), {"cascade": False, "to": at(3)}, "INVALID_CASCADE_CONFIGURATION",
            "T --to-time '2026-11-20 12:03:00+00:00' --cascade",
        ),
        ((stg(), LATE), {}, "NO_ALIGNED_VERSION", "`stg.orders` at version 3"),
        ((stg(), replace(PAID, past=PAID.past[2:])), {}, "NO_ALIGNED_VERSION", "which begins at 3"),
        ((stg(), replace(PAID, removed=3)), {}, "BEYOND_RETENTION", "`dwd.paid` cannot go back to version 2"),
        ((stg(), replace(PAID, made_by="old")), {}, "DEFINITION_CHANGED", "`dwd.paid`"),
        (
            (stg(), replace(PAID, template="new", made_by="new")), {}, "DEFINITION_CHANGED",
            "`dwd.paid` at version 2 are by another",
        ),
        (
            (stg(removed=4), PAID), {"table": "dwd.paid", "to": 2}, "BEYOND_RETENTION",
            "goes on from version 3 of `stg.orders`, whose changes and snapshots are kept from version 4",
        ),
        ((stg(readable=4), PAID), {"table": "dwd.paid", "to": 2}, "BEYOND_RETENTION", "from version 4 on"),
        ((stg(head=6, rewinds=((6, 1),), removed=2),), {"to": 4}, "BEYOND_RETENTION", "retention has"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_exactly_is_refused(
    tables: tuple[Standing, ...], options: dict[str, object], code: str, words: str
) -> None:
    with pytest.raises(RewindRefused) as refused:
        planned(*tables, **options)  # type: ignore[arg-type]
    assert refused.value.code == code
    assert str(refused.value).startswith(f"[{code}] ")
    assert words.replace("T ", "stg.orders ") in str(refused.value)
    assert ". Next: " in str(refused.value)


@pytest.mark.parametrize(
    ("rewinds", "after", "through", "ranges"),
    [
        ((), 2, 5, [(2, 5)]),
        ((), 5, 5, []),
        (((6, 3),), 1, 5, [(1, 5)]),
        (((6, 3),), 1, 6, [(1, 3)]),
        (((6, 3),), 1, 8, [(1, 3), (6, 8)]),
        (((6, 3),), 3, 6, []),
        (((6, 3),), 4, 8, [(4, 8)]),
        (((6, 3),), 6, 8, [(6, 8)]),
        (((6, 3), (9, 2)), 1, NEWEST, [(1, 2), (9, NEWEST)]),
        (((6, 3), (9, 7)), 1, 10, [(1, 3), (6, 7), (9, 10)]),
        (((6, 3), (9, 5)), 1, 10, [(1, 5), (9, 10)]),
        (((6, 3), (9, 7)), 4, 10, [(4, 7), (9, 10)]),
    ],
)
def test_the_versions_that_lead_on(
    rewinds: tuple[tuple[int, int], ...], after: int, through: int, ranges: list[tuple[int, int]]
) -> None:
    assert live_ranges(rewinds, after, through) == ranges


def test_what_was_taken_back_leads_to_nothing_that_follows() -> None:
    rewinds = ((6, 3),)
    assert [old for old in range(9) if descends(rewinds, old, 8)] == [0, 1, 2, 3, 6, 7, 8]
    assert [old for old in range(9) if descends(rewinds, old, 6)] == [0, 1, 2, 3, 6]
    assert [old for old in range(9) if descends(rewinds, old, 5)] == [0, 1, 2, 3, 4, 5]
