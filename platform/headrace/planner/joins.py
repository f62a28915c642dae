"""The equi-join graph of a flat join, and the way from each leaf to the driving one.

A step from leaf L to leaf P rests on an equality that holds in every output row in which L takes part. Then
the rows of P that meet changed rows of L are all that the change can reach, and any spanning tree will do.
The ON of a LEFT JOIN holds only where its right side is present, so it leads away from the right side and
never towards it; `<=>` would also match the padding, so neither of its sides may be optional.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from headrace.planner.facts import Equality, Level, QueryFacts, Refusal
from headrace.planner.paths import Path, Step
from headrace.planner.trace import Traced, follow


def join_level(root: Level) -> Level:
    """The SELECT that joins: below the chain of SELECTs that each read just one subquery or CTE."""
    level = root
    while len(level.sources) == 1 and level.sources[0].level is not None:
        level = level.sources[0].level
    return level


@dataclass(frozen=True)
class _Link:
    start: Traced
    end: Traced
    null_safe: bool


def _links(level: Level) -> list[_Link]:
    links: list[_Link] = []
    for equality in level.equalities:
        left, right = follow(level, equality.left), follow(level, equality.right)
        if isinstance(left, Refusal) or isinstance(right, Refusal):
            continue
        for forward in (True, False):
            if _leads(level, equality, forward=forward):
                ends = (left, right) if forward else (right, left)
                links.append(_Link(*ends, equality.null_safe))
    return links


def _leads(level: Level, equality: Equality, *, forward: bool) -> bool:
    """Whether the equality is certain to hold for each output row with the side that one starts from."""
    start, end = (equality.left, equality.right) if forward else (equality.right, equality.left)
    optional = {o.source for o in (start, end) if level.sources[o.source].optional}
    introduced = equality.introduced
    if introduced is not None and level.sources[introduced].optional:
        if start.source != introduced:
            return False
        optional.discard(introduced)  # in its own ON clause it is not padded yet
    return not (equality.null_safe and optional)


def paths_to(facts: QueryFacts, level: Level, driving: int) -> tuple[Path, ...] | Refusal:
    """The path from every other leaf to `driving`, shortest first found, or which leaf has none."""
    links = _links(level)
    steps: dict[int, Step] = {}
    waiting = deque([driving])
    while waiting:
        towards = waiting.popleft()
        for reference in range(len(facts.references)):
            found = [x for x in links if (x.start.reference, x.end.reference) == (reference, towards)]
            if found and reference != driving and reference not in steps:
                steps[reference] = Step(
                    reference,
                    tuple(x.start.column for x in found),
                    towards,
                    tuple(x.end.column for x in found),
                    tuple(x.null_safe for x in found),
                )
                waiting.append(reference)
    for reference in range(len(facts.references)):
        if reference != driving and reference not in steps:
            lost, goal = facts.name_of(reference), facts.name_of(driving)
            return Refusal(
                f"a change of {lost} cannot be followed to {goal}: no `=` between plain columns "
                "that must hold joins them"
            )
    return tuple(
        Path(reference, _chain(steps, reference))
        for reference in sorted(steps, key=lambda r: _depth(steps, r))
    )


def _chain(steps: dict[int, Step], reference: int) -> tuple[Step, ...]:
    chain: list[Step] = []
    while reference in steps:
        chain.append(steps[reference])
        reference = steps[reference].to_reference
    return tuple(chain)


def _depth(steps: dict[int, Step], reference: int) -> tuple[int, int]:
    return len(_chain(steps, reference)), reference
