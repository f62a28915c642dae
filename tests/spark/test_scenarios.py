"""Known killers of incremental maintenance: `tests/scenarios/*.yml`, expected rows written by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from comparison import apart
from harness import Harness
from scenario import Play, Step, load, scenario_files, typed

from headrace.engine.rows.batch_rows import batch_rows

FILES = list(scenario_files())


def test_the_scenario_files_are_found() -> None:
    assert len(FILES) >= 12


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_scenario(harness: Callable[..., Harness], path: Path, request: pytest.FixtureRequest) -> None:
    scenario = load(path)
    if scenario.known is not None:
        request.applymarker(pytest.mark.xfail(reason=scenario.known, strict=True))
    warehouse = harness(scenario.layers(), source=scenario.source())
    play = Play(warehouse, scenario)
    for number, step in enumerate(scenario.steps):
        play.run(step)
        if step.fails is not None:
            _fails_alike(play, step)
        for name, what in warehouse.differing(proof=number == len(scenario.steps) - 1):
            pytest.fail(f"after step {number}: {name} is not its batch result: {what}")
        for name, rows in step.expect.items():
            held, wanted = Counter(warehouse.rows(name)), Counter(typed(warehouse, name, rows))
            strategy = warehouse.table(name).plan.strategy.name
            assert held == wanted, f"after step {number}: {name} ({strategy}): {apart(held, wanted)}"


def _fails_alike(play: Play, step: Step) -> None:
    """The refresh and the batch run over the same rows fail with the same class; nothing is committed."""
    assert step.fails is not None
    name, expected = step.fails
    warehouse = play.warehouse
    table = warehouse.table(name)
    before = table.store.version
    with pytest.raises(Exception) as refresh:
        warehouse.advance(play.known)
    upstreams = warehouse.registry.upstreams(table)
    now = {str(n): u.store.version for n, u in upstreams.items()}
    with pytest.raises(Exception) as batch:
        batch_rows(warehouse.sessions.batch, warehouse.registry, table, now).toArrow()
    assert (type(refresh.value).__name__, type(batch.value).__name__) == (expected, expected)
    assert table.store.version == before
    play.lagging = True
