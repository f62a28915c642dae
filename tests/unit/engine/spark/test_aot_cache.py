"""When an ahead-of-time cache is made outside the set-up."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.engine.spark import aot_cache
from headrace.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(project=tmp_path, data=tmp_path, home=tmp_path / "home")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were run; none of them is."""
    found: list[list[str]] = []

    def run(command: list[str], *, env: dict[str, str], **_: object) -> None:
        found.append([*command, env["HEADRACE_HOME"]])

    monkeypatch.setattr(aot_cache, "subprocess", SimpleNamespace(run=run))
    return found


def test_another_java_gets_its_cache_when_the_stack_starts(
    settings: Settings, runs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = aot_cache.cache(settings)
    made.parent.mkdir(parents=True)
    made.touch()
    told: list[str] = []
    aot_cache.renew(settings, told.append)
    assert (runs, told) == ([], [])
    monkeypatch.setattr(aot_cache, "cache", lambda settings: made.with_stem("of-another-java"))
    aot_cache.renew(settings, told.append)
    assert runs == [[sys.executable, "-m", "headrace.engine.spark.aot_cache", "--quiet", str(settings.home)]]
    assert len(told) == 1


def test_a_java_that_cannot_make_one_is_told_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    java = SimpleNamespace(version=aot_cache.OLDEST - 1, binary=Path(sys.executable))
    monkeypatch.setattr(aot_cache, "find_java", lambda: java)
    monkeypatch.setattr(aot_cache.Settings, "load", lambda directory: settings)
    assert aot_cache.main([]) == 0
    assert capsys.readouterr().err == ""
    assert not settings.home.exists()


def test_what_failed_at_the_set_up_is_not_tried_at_every_start(
    settings: Settings, runs: list[list[str]]
) -> None:
    log = aot_cache.cache(settings).with_suffix(".log")
    log.parent.mkdir(parents=True)
    log.touch()
    aot_cache.renew(settings, pytest.fail)
    assert runs == []
