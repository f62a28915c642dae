from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from headrace.scheduling.precedence import most_urgent


def order(deadlines: Mapping[str, float], reads: Mapping[str, set[str]]) -> str:
    """All of them as they go, one letter each."""
    left, gone = dict(deadlines), ""
    while left:
        gone += most_urgent(left, lambda key: reads.get(key, set()))
        del left[gone[-1]]
    return gone


@pytest.mark.parametrize(
    ("deadlines", "reads", "expected"),
    [
        ({"a": 3, "b": 1, "c": 2}, {}, "bca"),
        ({"a": 9, "b": 1, "c": 2}, {"b": {"a"}}, "abc"),
        # A chain has the deadline of its end, all the way up.
        ({"a": 9, "b": 8, "c": 1, "d": 2}, {"c": {"b"}, "b": {"a"}}, "abcd"),
        # What is not due counts for nothing, nor does what reads it.
        ({"a": 9, "c": 1}, {"c": {"b"}, "b": {"a"}}, "ca"),
        # Of equal ones what is read is first.
        ({"b": 1, "a": 1, "c": 1}, {"b": {"a"}, "a": {"c"}}, "cab"),
    ],
)
def test_the_earliest_deadline_goes_first_and_what_it_reads_before_it(
    deadlines: Mapping[str, float], reads: Mapping[str, set[str]], expected: str
) -> None:
    assert order(deadlines, reads) == expected


@pytest.mark.parametrize("seed", range(20))
def test_nothing_goes_before_what_it_reads(seed: int) -> None:
    chance = Random(seed)
    names = "abcdefghijklmnop"
    reads = {name: set(chance.sample(names[:n], min(n, chance.randrange(4)))) for n, name in enumerate(names)}
    gone = order({name: chance.randrange(10) for name in names}, reads)
    assert all(gone.index(up) < gone.index(name) for name in names for up in reads[name])
