"""The plan of what is done to ten tables: every kind of it, the same for a seed, columns that are there."""

from __future__ import annotations

import re

import chaos
import pytest

SEEDS = range(40)


def test_a_seed_is_one_plan() -> None:
    assert chaos.make_plan(7) == chaos.make_plan(7)
    assert chaos.make_plan(7) != chaos.make_plan(8)


def test_each_plan_kills_everything_and_some_are_killed_together() -> None:
    plans = [chaos.make_plan(seed) for seed in SEEDS]
    for plan in plans:
        assert {v for kill in plan.kills for v in kill.victims} == set(chaos.VICTIMS)
        assert [k.after for k in plan.kills] == sorted(k.after for k in plan.kills)
        assert 0 < plan.kills[0].after < 40 and plan.kills[-1].after < plan.transactions
    assert {len(kill.victims) for plan in plans for kill in plan.kills} == {1, 2}


def test_all_kinds_of_changes_have_their_turn() -> None:
    said = " ".join(
        s for seed in SEEDS for w in chaos.make_plan(seed).writers for t in w for s in t.statements
    )
    for kind in (
        "INSERT",
        "UPDATE",
        "DELETE",
        "TRUNCATE",
        "ADD COLUMN",
        "DROP COLUMN",
        "RENAME COLUMN",
        "TYPE",
    ):
        assert kind in said
    assert all(table in said for table in chaos.TABLES)


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_are_named_only_while_they_are_there(seed: int) -> None:
    """Each table's own are changed and named by one writer, in this order."""
    for writer in chaos.make_plan(seed).writers:
        there: set[tuple[str, str]] = set()
        for statement in (s for t in writer for s in t.statements):
            table = re.search(r"chaos_\d", statement)
            assert table is not None
            own = {(table[0], name) for name in re.findall(r"\bx\d+\b", statement)}
            if "ADD COLUMN" in statement:
                there |= own
            elif "RENAME" in statement:
                (was,) = own & there
                (now,) = own - there
                there = (there - {was}) | {now}
            elif "DROP COLUMN" in statement:
                assert own <= there
                there -= own
            assert own <= there or "DROP COLUMN" in statement or "RENAME" in statement


@pytest.mark.parametrize(
    ("said", "statement"),
    [
        ("its slot is lost. Next: `headrace resync stg.a`", "ALTER MATERIALIZED TABLE stg.a RESYNC"),
        ("there is no column. Next: edit the file, `headrace apply`", "APPLY"),
        ("Next: correct it, then `headrace resume dws.b`", "ALTER MATERIALIZED TABLE dws.b RESUME"),
        ("it is broken", None),
    ],
)
def test_a_message_says_what_is_next(said: str, statement: str | None) -> None:
    assert chaos.next_statement(said) == statement
