"""When ahead-of-time caches are made outside the set-up, and what takes which one's place."""

from __future__ import annotations

import fcntl
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import pytest

from headrace import aot_caches
from headrace.aot_caches import AotCache
from headrace.engine.spark import aot_cache
from headrace.errors import TransientError
from headrace.services import kafka_caches
from headrace.services.programs import kafka
from headrace.settings import Settings


class Maker(NamedTuple):
    """What makes caches, and which."""

    module: ModuleType
    caches: list[AotCache]


def of_kafka(settings: Settings) -> list[AotCache]:
    return [kafka.cache(settings, name) for name in kafka.CACHED]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Those that a set-up finds."""
    jars = tmp_path / "home" / "jars" / "kafka"
    jars.mkdir(parents=True)
    (jars / "kafka.jar").touch()
    found = Settings(project=tmp_path, data=tmp_path, home=tmp_path / "home")
    monkeypatch.setattr(Settings, "load", lambda directory: found)
    return found


@pytest.fixture(params=["spark", "kafka"])
def maker(request: pytest.FixtureRequest, settings: Settings) -> Maker:
    if request.param == "spark":
        return Maker(aot_cache, [aot_cache.cache(settings)])
    return Maker(kafka_caches, of_kafka(settings))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were run; none of them is."""
    found: list[list[str]] = []

    def run(command: list[str], *, env: dict[str, str], **_: object) -> None:
        found.append([*command, env["HEADRACE_HOME"]])

    monkeypatch.setattr(aot_caches, "subprocess", SimpleNamespace(run=run))
    return found


def touch(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()


def test_other_jars_get_their_cache_when_the_stack_starts(
    settings: Settings,
    runs: list[list[str]],
    maker: Maker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for cache in maker.caches:
        touch(cache.path)
    told: list[str] = []
    maker.module.renew(settings, told.append)
    assert (runs, told) == ([], [])
    monkeypatch.setattr(aot_caches, "digest", lambda text: "of-others")
    maker.module.renew(settings, told.append)
    assert runs == [[sys.executable, "-m", maker.module.__name__, "--quiet", str(settings.home)]]
    assert told == [maker.module.MAKING]


def test_a_java_that_cannot_make_one_is_told_nothing(
    settings: Settings,
    maker: Maker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    java = SimpleNamespace(version=aot_caches.OLDEST - 1, binary=Path(sys.executable))
    monkeypatch.setattr(aot_caches, "find_java", lambda: java)
    assert maker.module.main([]) == 0
    assert capsys.readouterr().err == ""
    assert not (settings.home / "classes").exists()
    assert [cache.reading() for cache in maker.caches] == [[]] * len(maker.caches)


def test_what_failed_at_the_set_up_is_not_tried_at_every_start(
    settings: Settings,
    runs: list[list[str]],
    maker: Maker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(settings: Settings) -> None:
        raise TransientError("it does not start")

    monkeypatch.setattr(maker.module, "ensure", fails)
    assert maker.module.main([]) == 0
    assert "without an ahead-of-time cache: it does not start" in capsys.readouterr().err
    maker.module.renew(settings, pytest.fail)
    assert runs == []


def test_who_starts_while_another_process_makes_them_waits_for_it(
    settings: Settings,
    runs: list[list[str]],
    maker: Maker,
) -> None:
    folder = maker.caches[0].path.parent
    folder.mkdir(parents=True)
    with (folder / f"{maker.module.__name__}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(target=maker.module.renew, args=(settings, pytest.fail))
        other.start()
        other.join(0.2)
        assert other.is_alive()
        for cache in maker.caches:
            touch(cache.path)
    other.join(10)
    assert not other.is_alive() and runs == []


def test_a_cache_takes_the_place_of_its_program_s_older_one(settings: Settings) -> None:
    of_broker, of_worker = of_kafka(settings)
    older = of_broker.path.with_name("kafka-older.aot")
    for file in (older, older.with_suffix(".log"), of_worker.path, of_broker.log):
        touch(file)
    with of_broker.making() as made:
        assert made.name == of_broker.path.name and not of_broker.path.exists()
        made.write_text("classes")
    assert sorted(of_broker.path.parent.iterdir()) == sorted([of_broker.path, of_broker.log, of_worker.path])
    assert of_broker.reading()[0] == f"-XX:AOTCache={of_broker.path}"


def test_a_run_that_writes_none_leaves_what_is_there(settings: Settings) -> None:
    cache = of_kafka(settings)[0]
    older = cache.path.with_name("kafka-older.aot")
    touch(older)
    with cache.making():
        pass
    assert list(cache.path.parent.iterdir()) == [older]
