"""What the live suites say of all contenders alike: exactness, and headrace against each peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.live.race import Score
from benchmarks.report import Result, at_most


def exact(scores: Sequence[Score]) -> list[Result]:
    """Whether every table equals PostgreSQL's own result: a bar for headrace, a fact about a peer."""
    results = []
    for score in scores:
        wrong = [f"{when}: {table}" for when, tables in score.wrong.items() for table in tables]
        results.append(Result(f"{score.name}.equal to PostgreSQL", not wrong and score.failed is None))
        if wrong or score.failed:
            results.append(Result(f"{score.name}.why", score.failed or "; ".join(wrong)))
    ours = scores[0]
    return [*results, at_most("tables of headrace that differ", sum(map(len, ours.wrong.values())), 0)]


def against(
    scores: Sequence[Score], what: str, seconds: Callable[[Score], float], bars: dict[str, float]
) -> list[Result]:
    """headrace's part of each peer's seconds.

    Args:
        bars: the most it may be, by the peer's name; others have none.
    """
    ours = seconds(scores[0])
    results = []
    for peer in (s for s in scores[1:] if s.failed is None):
        name, part = f"{what}, part of {peer.name}'s", ours / seconds(peer)
        bar = bars.get(peer.name)
        results.append(Result(name, part) if bar is None else at_most(name, part, bar))
    return results
