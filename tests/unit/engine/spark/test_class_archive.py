"""When a class data archive is made outside the set-up."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.engine.spark import class_archive
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

    monkeypatch.setattr(class_archive, "subprocess", SimpleNamespace(run=run))
    return found


def test_another_java_gets_its_archive_when_the_stack_starts(
    settings: Settings, runs: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = class_archive.archive(settings)
    made.parent.mkdir(parents=True)
    made.touch()
    told: list[str] = []
    class_archive.renew(settings, told.append)
    assert (runs, told) == ([], [])
    monkeypatch.setattr(class_archive, "archive", lambda settings: made.with_stem("of-another-java"))
    class_archive.renew(settings, told.append)
    assert runs == [[sys.executable, "-m", "headrace.engine.spark.class_archive", str(settings.home)]]
    assert len(told) == 1


def test_what_failed_at_the_set_up_is_not_tried_at_every_start(
    settings: Settings, runs: list[list[str]]
) -> None:
    log = class_archive.archive(settings).with_suffix(".log")
    log.parent.mkdir(parents=True)
    log.touch()
    class_archive.renew(settings, pytest.fail)
    assert runs == []
