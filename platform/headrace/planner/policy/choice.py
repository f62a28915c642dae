"""Choosing how one refresh runs, by cost: static rules at first sight, then what past refreshes took.

Per strategy and size the seconds are a line over rows, fitted by weighted medians of slopes and rests
(Theil 1950, Sen 1968), so that a few slow refreshes do not bend it; a sample's weight decays with its age.
Below `ENOUGH` samples, and far beyond the rows seen, a prior speaks, scaled by how it did so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from headrace.spec.model import RefreshPolicy
from headrace.store.record.decision import Decision

Place = Literal["driver", "arrow", "cluster"]
"""Who does what is not FULL: the driver with prepared queries, for few rows; Spark and then Arrow, where the
changed rows are in the driver; Spark alone."""

FULL = "FULL"
FULL_SHARE = 0.3
"""Share of the driving table beyond which, at first sight, running the whole query is cheaper."""

WEIGHTED_SHARE = 0.06
"""The same for WEIGHTED: it aggregates each image of a changed row by itself, and merges three sides."""

LIMITS = {"ROW": 1.0, "WEIGHTED": WEIGHTED_SHARE}

ENOUGH = 3
"""Samples from which a strategy's own past decides."""

DECAY = 0.9
"""Weight of a sample against the next newer one of its strategy."""

SAMPLES = 24
"""Newest samples of a strategy that count; older ones weigh less than a tenth."""

REACH = 3.0
"""Multiple of the most rows seen up to which the line is trusted."""

PROMISE = 0.5
"""A candidate that was hardly tried yet must promise this part of the rule's choice to be taken."""


@dataclass(frozen=True)
class Features:
    """What is known of a refresh before any work.

    Args:
        changed: change rows of all upstreams.
        driving: rows of the largest table that the change is followed to; of the largest upstream for others.
        upstream: rows of all upstreams together.
        table: rows of the table itself.
        place: who works, if the strategy is not FULL.
    """

    changed: int
    driving: int
    upstream: int
    table: int
    place: Place

    @property
    def share(self) -> float:
        return self.changed / max(self.driving, 1)


@dataclass(frozen=True)
class Sample:
    """What one run of a strategy took, in seconds."""

    strategy: str
    features: Features
    seconds: float


@dataclass(frozen=True)
class Estimate:
    """Expected seconds of a candidate; `samples` is how many past refreshes stand behind it."""

    strategy: str
    seconds: float
    samples: int


@dataclass(frozen=True)
class Choice:
    """What runs, why in words for a user, and what each candidate was expected to take."""

    strategy: str
    why: str
    estimates: tuple[Estimate, ...]


def samples(decision: Decision) -> list[Sample]:
    """What a past refresh teaches. A first load is no sample: nothing was compared."""
    if decision.path == "load":
        return []
    place = cast("Place", decision.path.partition(",")[0])
    features = Features(decision.rows_in, decision.driving, decision.upstream, decision.table, place)
    runs = {decision.chosen: decision.seconds, **decision.shadow}
    return [Sample(name, features, seconds) for name, seconds in runs.items()]


def choose(
    candidates: Sequence[str],
    features: Features,
    history: Iterable[Sample],
    policy: RefreshPolicy = RefreshPolicy.AUTO,
    *,
    force: str | None = None,
) -> Choice:
    """The candidate that will take the least time.

    Args:
        candidates: strategies that are right for the table, the planned one first; FULL may be among them.
        history: past runs, oldest first.
        policy: under INCREMENTAL and INCREMENTAL STRICT, FULL runs only where it is the only candidate.
        force: `INCREMENTAL`, `FULL` or a candidate: take it, whatever it costs.
    Raises:
        ValueError: no candidate is what `force` names.
    """
    past = list(history)
    estimates = tuple(estimate(name, features, past) for name in candidates)
    narrow = [e for e in estimates if e.strategy != FULL]
    if force is not None:
        named = [
            e
            for e in (narrow if force == "INCREMENTAL" else estimates)
            if force in ("INCREMENTAL", e.strategy)
        ]
        if not named:
            raise ValueError(f"no candidate is {force}: {', '.join(candidates)}")
        return Choice(_least(named).strategy, "forced", estimates)
    if len(estimates) == 1:
        return Choice(estimates[0].strategy, "the only strategy for its query", estimates)
    if policy in (RefreshPolicy.INCREMENTAL, RefreshPolicy.INCREMENTAL_STRICT) and narrow:
        return Choice(_least(narrow).strategy, f"REFRESH_POLICY = {policy}", estimates)
    rule, reason = _rule(candidates, features)
    if not past:
        return Choice(rule, f"at first sight: {reason}", estimates)
    by_name = {e.strategy: e for e in estimates}
    best = _least(estimates)
    tried = min(best.samples, by_name[rule].samples) >= ENOUGH
    # What the driver does is bounded. A Spark job of many tasks that nobody tried is cold, and on a machine
    # that is busy it takes many times what is expected of it: no reason to run the whole query.
    doubtful = features.place == "driver" or best.seconds > PROMISE * by_name[rule].seconds
    if best.strategy != rule and not tried and doubtful:
        return Choice(rule, f"{reason}; {_compared(best, by_name[rule])}", estimates)
    return Choice(best.strategy, f"least expected: {_listed(estimates)}", estimates)


def _least(estimates: Sequence[Estimate]) -> Estimate:
    return min(estimates, key=lambda e: e.seconds)


def _listed(estimates: Iterable[Estimate]) -> str:
    return ", ".join(f"{e.strategy} {e.seconds:.2f} s of {e.samples} past" for e in estimates)


def _compared(best: Estimate, rule: Estimate) -> str:
    return f"{_listed([best, rule])} are too few to tell"


def _rule(candidates: Sequence[str], features: Features) -> tuple[str, str]:
    """What runs while nothing was measured yet: the planned strategy, unless the change is most of all."""
    planned = candidates[0]
    limit = LIMITS.get(planned, FULL_SHARE)
    what = f"{features.changed:,} change rows"
    if features.place == "driver":
        return planned, f"{what} are few enough for the driver"
    if features.place == "arrow" and FULL in candidates:
        rule = min((planned, FULL), key=lambda s: prior(s, features))
        return rule, f"{what} in the driver, of {features.driving:,} rows"
    if features.share <= limit or FULL not in candidates:
        return planned, f"{what} are {features.share:.0%} of {features.driving:,} rows"
    return FULL, f"{what} are {features.share:.0%} of {features.driving:,} rows, more than {limit:.0%}"


def prior(strategy: str, features: Features) -> float:
    """Seconds on two ordinary cores, roughly; of use only in proportion. Agrees with the rule by design."""
    rewritten = 4e-6 * features.table  # by the compaction that follows a large change
    read = 1e-6 * (features.upstream + features.table)
    written = 3.5e-6 * min(features.changed, 2 * features.table)
    if strategy == FULL:
        return 0.8 + read + written + rewritten
    if features.place == "driver":
        return 0.1 + 2.5e-5 * features.changed
    if features.place == "arrow":  # compaction rewrites what was hit
        merged = 4e-6 * min(features.changed, 2 * features.table) if strategy == "WEIGHTED" else 0.0
        return 0.5 + 3e-6 * features.changed + merged + 0.8e-6 * features.table
    if strategy == "ROW":  # it reads no more than the change, and what it hits
        return 0.8 + 5e-6 * features.changed + rewritten
    if strategy == "WEIGHTED":
        return 0.8 + 2e-5 * features.changed + rewritten
    part = 0.4 + 0.6 * features.share / FULL_SHARE  # the driving table is read, a part of it computed
    return 0.8 + read * part + written + rewritten


def estimate(strategy: str, features: Features, history: Sequence[Sample]) -> Estimate:
    """What `strategy` will take, from its own past where there is enough of it."""
    place = _place(strategy, features)  # work in the driver tells nothing of work by Spark jobs
    alike = [s for s in history if _place(s.strategy, s.features) == place]
    like = [s for s in alike if s.strategy == strategy][-SAMPLES:]
    scaled = prior(strategy, features) * _scale(like or alike)
    if len(like) < ENOUGH:
        return Estimate(strategy, scaled, len(like))
    rows = _rows(strategy, features)
    seen = [_rows(strategy, s.features) for s in like]
    weights = _weights(len(like))
    if max(seen) < 2 * max(min(seen), 1):  # one size only: no slope to see
        return Estimate(strategy, scaled, len(like))
    slope, rest = _line(seen, [s.seconds for s in like], weights)
    reach = REACH * max(seen)
    seconds = rest + slope * min(rows, reach)
    if rows > reach:  # a slope among few rows is mostly noise: beyond them the prior's shape goes on
        edge = prior(strategy, _with_rows(strategy, features, reach / rows))
        seconds = max(seconds * prior(strategy, features) / edge, scaled)
    return Estimate(strategy, max(seconds, min(s.seconds for s in like) / 2), len(like))


def _place(strategy: str, features: Features) -> Place:
    return "cluster" if strategy == FULL else features.place


def _rows(strategy: str, features: Features) -> float:
    """What a strategy's time grows with."""
    return features.upstream + features.table if strategy == FULL else features.changed


def _with_rows(strategy: str, features: Features, share: float) -> Features:
    """A refresh that is alike, with a share of the rows that its time grows with."""
    if strategy == FULL:
        upstream, table = round(features.upstream * share), round(features.table * share)
        return replace(features, upstream=upstream, table=table)
    return replace(features, changed=round(features.changed * share))


def _scale(history: Sequence[Sample]) -> float:
    """How much slower than the prior things were: 1 where nothing is known."""
    newest = history[-SAMPLES:]
    ratios = [s.seconds / prior(s.strategy, s.features) for s in newest]
    return _median(ratios, _weights(len(newest))) if newest else 1.0


def _weights(count: int) -> list[float]:
    return [DECAY ** (count - 1 - i) for i in range(count)]


def _line(x: Sequence[float], y: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
    """Slope and rest, neither below 0."""
    pairs = [(i, j) for j in range(len(x)) for i in range(j) if x[i] != x[j]]
    slopes = [(y[j] - y[i]) / (x[j] - x[i]) for i, j in pairs]
    # pairs far apart tell more of the slope than neighbours
    slope = _median(slopes, [weights[i] * weights[j] * abs(x[j] - x[i]) for i, j in pairs])
    slope = max(slope, 0.0)
    rest = _median([b - slope * a for a, b in zip(x, y, strict=True)], weights)
    return slope, max(rest, 0.0)


def _median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The weighted median."""
    ordered = sorted(zip(values, weights, strict=True))
    half, passed = sum(weights) / 2, 0.0
    for value, weight in ordered:
        passed += weight
        if passed >= half:
            return value
    return ordered[-1][0]
