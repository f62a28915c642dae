"""The suite `chain`: the demo's own tables and load, every table against the freshness that it declares."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.live.contender import Contender, Source, shop_peer
from benchmarks.live.headrace import Headrace
from benchmarks.live.race import of_contender
from benchmarks.live.shop_run import Phase, ShopRun, ShopScore
from benchmarks.live.verifying import Verifying
from benchmarks.report import Result, at_least, at_most
from benchmarks.runner import Bench
from headrace.demo import shop
from headrace.demo.daily import REPORT
from headrace.errors import HeadraceError, TerminalError
from headrace.gateway.client import GatewayClient
from headrace.services.scratch import scratch_settings
from headrace.services.stack import Stack
from headrace.settings import checkout
from headrace.sources.connect import ConnectClient, ConnectorFile
from headrace.sources.registration import create_topics
from headrace.sources.stream.broker import Broker

WATCHED = "dws.user_hour"
RATE_BAR = 1000.0
FIRST_ROW_BAR = 25.0
BESIDE_BAR = 1.5
COLD, WARM, VERIFIED = "cold", "warm", "verified"
PEER = "flink_paimon"


@dataclass(frozen=True)
class Extent:
    """How much is run.

    Args:
        orders: of the shop at first.
        rate: row changes a second of the two phases that hold tables against what they declare.
        cold: seconds that are measured from the start on existing tables on; 0 for no such start.
        warm_up, seconds: of the warm phase.
        verified: seconds that are measured while `VERIFY` runs again and again; 0 for none.
        rates: tried afterwards, until a table misses what it declares; `rate_warm_up` before each.
        bar: the most that a table's p90 may be of what it declares.
    """

    orders: int
    cold: float
    warm_up: float
    seconds: float
    verified: float
    rates: Sequence[float]
    bar: float
    rate: float = 40.0
    rate_warm_up: float = 20.0
    rate_seconds: float = 40.0


FULL = Extent(
    200_000, cold=60.0, warm_up=120.0, seconds=60.0, verified=60.0, rates=(200.0, 1050.0, 5000.0), bar=1.0
)
QUICK = Extent(20_000, cold=0.0, warm_up=20.0, seconds=30.0, verified=0.0, rates=(), bar=3.0)


def run(bench: Bench) -> list[Result]:
    """See `benchmarks.runner.Suite`."""
    extent = QUICK if bench.options.quick else FULL
    project = _project(bench.directory / "project")
    with scratch_settings(project, home=bench.settings.home) as settings:
        stack = Stack(settings)
        peers = [shop_peer(name, settings) for name in bench.options.peers]
        for other in peers:
            other.install(bench.options.cache / other.name, bench.tell)
        try:
            bench.tell("starting PostgreSQL, Kafka and Kafka Connect")
            stack.up(only=["connect"])
            shop.create_shop(
                settings.postgres_dsn(), seed=bench.options.seed, orders=bench.options.rows or extent.orders
            )
            declared, ours = _ours(bench, stack, extent)
            theirs = [_theirs(bench, stack, extent, other) for other in peers]
        finally:
            stack.down()
    return results(extent, declared, ours, theirs)


def _project(target: Path) -> Path:
    """The repository's own layers and connectors."""
    root = checkout()
    if root is None:
        raise TerminalError("the suite runs the layers of headrace's repository, and this is none")
    shutil.copytree(root / "layers", target / "layers")
    shutil.copytree(root / "deploy" / "connectors", target / "deploy" / "connectors")
    return target


def _ours(bench: Bench, stack: Stack, extent: Extent) -> tuple[dict[str, float], ShopScore]:
    """What the tables declare, or the tightest that reads them, and headrace's score."""
    settings = stack.settings
    ran = ShopRun(_source(stack, _connector(stack)), Headrace(settings), bench.options.seed, bench.tell)
    ran.contender.start(ran.source, settings.data)
    begun = time.time()
    stack.register_connectors()
    with GatewayClient(settings) as client, ran.marked():
        client.run(f"ALTER MATERIALIZED TABLE {REPORT} SET FRESHNESS = INTERVAL '1' MINUTE")
        ran.score.snapshot = max(ran.wait_shown(begun).values()) - begun
        bench.tell(f"headrace: all tables after {ran.score.snapshot:.0f} s")
    if extent.cold:
        stack.down()
        begun = time.time()
        stack.up(only=["connect", "warehouse"])
    with ran.marked():
        if extent.cold:
            ran.phase(COLD, extent.rate, 0.0, extent.cold)
            ran.score.first_row = ran.wait_shown(begun)[WATCHED] - begun
        ran.phase(WARM, extent.rate, extent.warm_up, extent.seconds)
        if extent.verified:
            with Verifying(settings) as verifying:
                ran.phase(VERIFIED, extent.rate, extent.rate_warm_up, extent.verified)
            ran.score.verify = verifying.took
        with GatewayClient(settings) as client:
            declared = {s.table: s.freshness_to_keep for s in client.status()}
        wanted = {table: seconds for table, seconds in declared.items() if seconds is not None}
        for rate in extent.rates:
            found = ran.phase(f"rate {rate:.0f}", rate, extent.rate_warm_up, extent.rate_seconds)
            if worst(found, wanted)[1] > 1:
                break
    ran.compare()
    ran.contender.stop()
    return wanted, ran.score


def _theirs(bench: Bench, stack: Stack, extent: Extent, other: Contender) -> ShopScore:
    connector = of_contender(_connector(stack), other.name)
    ran = ShopRun(_source(stack, connector), other, bench.options.seed, bench.tell)
    place = stack.settings.data / "contenders" / other.name
    place.mkdir(parents=True)
    create_topics(Broker.of(stack.settings), connector.topics())
    try:
        other.start(ran.source, place)
        begun = time.time()
        with ConnectClient(stack.settings.connect_rest) as client:
            client.put_connector(connector)
            client.wait_running(connector.name)
        with ran.marked():
            ran.score.snapshot = max(ran.wait_shown(begun).values()) - begun
            bench.tell(f"{other.name}: all tables after {ran.score.snapshot:.0f} s")
            ran.phase(WARM, extent.rate, extent.warm_up, extent.seconds)
            for rate in extent.rates:
                ran.phase(f"rate {rate:.0f}", rate, extent.rate_warm_up, extent.rate_seconds)
        ran.compare()
    except HeadraceError as error:
        ran.score.failed = str(error)
    except KeyboardInterrupt:  # who waits for a peer no longer still wants what headrace did
        ran.score.failed = "ended by who ran it"
    finally:
        other.stop()
        with ConnectClient(stack.settings.connect_rest) as client:
            client.delete(connector.name)
    return ran.score


def _connector(stack: Stack) -> ConnectorFile:
    [file] = stack.settings.connectors.glob("*.json")
    return ConnectorFile.read(file)


def _source(stack: Stack, connector: ConnectorFile) -> Source:
    return Source(stack.settings.postgres_dsn(), Broker.of(stack.settings), connector.topics())


def worst(phase: Phase, declared: Mapping[str, float]) -> tuple[str, float]:
    """The table whose p90 is the largest part of what it declares, and that part."""
    return max(
        ((t, phase.part_of(t, seconds)) for t, seconds in declared.items()), key=lambda found: found[1]
    )


def sustained(phases: Mapping[str, Phase], declared: Mapping[str, float]) -> float:
    """The highest rate, as it really was, at which every table kept what it declares."""
    kept = [p.rate for name, p in phases.items() if name != COLD and worst(p, declared)[1] <= 1]
    return max(kept, default=0.0)


def results(
    extent: Extent, declared: Mapping[str, float], ours: ShopScore, theirs: Sequence[ShopScore]
) -> list[Result]:
    """What is told of the scores.

    Args:
        declared: seconds that each table declares, or the tightest that reads it.
    """
    found = [r for table, seconds in declared.items() for r in _of_table(table, seconds, ours, theirs)]
    for score in (ours, *theirs):
        found += [Result(f"{score.name}.snapshot", score.snapshot, "s")]
        for name, phase in score.phases.items():
            latest, part = worst(phase, declared)
            found += [
                Result(f"{score.name}, {name}.changes a second", phase.rate),
                Result(f"{score.name}, {name}.processor seconds for 1000 changes", phase.processor, "s"),
                Result(f"{score.name}, {name}.p50 of user_hour", phase.delay(WATCHED, 0.5), "s"),
                Result(f"{score.name}, {name}.p90 of user_hour", phase.delay(WATCHED, 0.9), "s"),
                Result(f"{score.name}, {name}.p50 of all tables", phase.delay_of_all, "s"),
                Result(f"{score.name}, {name}.latest table", latest),
                Result(f"{score.name}, {name}.its part of what it declares", part),
                Result(f"{score.name}, {name}.memory", phase.memory / 2**30, "GiB"),
            ]
        found += [Result(f"{score.name}.equal to PostgreSQL", not score.wrong and score.failed is None)]
        if score.wrong or score.failed:
            found += [Result(f"{score.name}.why", score.failed or ", ".join(score.wrong))]
    warm = ours.phases[WARM]
    table, part = worst(warm, declared)
    found += [
        at_most("tables of headrace that differ", len(ours.wrong), 0),
        at_most("changes that never showed", sum(warm.missing.values()), 0),
        Result("table that is the latest for what it declares", table),
        at_most("its p90, part of what it declares", part, extent.bar),
    ]
    if ours.first_row is not None:
        found += [
            at_most("from `up` on existing tables to the first row", ours.first_row, FIRST_ROW_BAR, "s")
        ]
    if VERIFIED in ours.phases:
        beside = ours.phases[VERIFIED].delay(WATCHED, 0.9) / warm.delay(WATCHED, 0.9)
        found += [
            Result("VERIFY of every table beside the load, the slowest", max(ours.verify), "s"),
            at_most("p90 of user_hour meanwhile, part of that without", beside, BESIDE_BAR),
        ]
    if extent.rates:
        rate = sustained(ours.phases, declared)
        found += [at_least("changes a second with every declaration kept", rate, RATE_BAR)]
    for other in (s for s in theirs if s.failed is None and WARM in s.phases):
        found += _against(warm, other, declared)
    return found


def _of_table(table: str, declared: float, ours: ShopScore, theirs: Sequence[ShopScore]) -> Iterator[Result]:
    yield Result(f"{table}.declared", declared, "s")
    if COLD in ours.phases:
        yield Result(f"{table}.cold p90", ours.phases[COLD].delay(table, 0.9), "s")
    for share in (0.5, 0.9, 0.99):
        yield Result(f"{table}.p{100 * share:.0f}", ours.phases[WARM].delay(table, share), "s")
    for other in theirs:
        if WARM in other.phases:
            yield Result(f"{table}.{other.name} p50", other.phases[WARM].delay(table, 0.5), "s")


def _against(warm: Phase, other: ShopScore, declared: Mapping[str, float]) -> list[Result]:
    """headrace's part of a peer's time: at the table where it is the largest, and of the processor's."""
    phase = other.phases[WARM]
    parts = {table: warm.delay(table, 0.5) / phase.delay(table, 0.5) for table in declared}
    slowest = max(parts, key=lambda table: parts[table])
    named = f"p50 at the table where it is the largest part of {other.name}'s"
    processor = f"processor time for a change, part of {other.name}'s"
    found = [Result(f"that table, beside {other.name}", slowest), at_most(named, parts[slowest], 1.0)]
    if behind := [table for table in declared if math.isinf(phase.delay(table, 0.5))]:
        # What is not computed costs nothing.
        found += [Result(processor, f"not comparable: {', '.join(behind)} did not follow")]
    else:
        found += [at_most(processor, warm.processor / phase.processor, 1.0)]
    return found if other.name == PEER else [Result(r.name, r.value) for r in found]
