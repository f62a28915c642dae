"""What Spark is told beside headrace's own configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.spark.cluster import addresses, own
from headrace.errors import TerminalError
from headrace.settings import Settings


def settings(tmp_path: Path, **values: str) -> Settings:
    return Settings(project=tmp_path, **values)


@pytest.mark.parametrize(
    ("master", "loopback"),
    [
        ("local[*]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077,127.0.0.2:7078", True),
        ("spark://spark.example:7077", False),
        ("spark://127.0.0.1:7077,spark.example:7077", False),
        ("k8s://https://10.0.0.1:6443", False),
        ("yarn", False),
    ],
)
def test_the_driver_is_on_loopback_unless_its_cluster_is_elsewhere(
    tmp_path: Path, master: str, loopback: bool
) -> None:
    assert bool(addresses(settings(tmp_path, spark_master=master))) is loopback


def test_the_users_own(tmp_path: Path) -> None:
    given = settings(tmp_path, spark_conf=" spark.cores.max=8; spark.executor.extraJavaOptions=-Da=b -Dc=d;")
    assert own(given, ()) == {
        "spark.cores.max": "8",
        "spark.executor.extraJavaOptions": "-Da=b -Dc=d",
    }
    assert own(settings(tmp_path), ()) == {}


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ("spark.master=yarn", "set `spark_master`"),
        ("spark.sql.ansi.enabled=false", "is headrace's own"),
        ("cores=8", "`cores` is no configuration of Spark"),
    ],
)
def test_what_is_headraces_own_is_refused(tmp_path: Path, conf: str, message: str) -> None:
    with pytest.raises(TerminalError) as refused:
        own(settings(tmp_path, spark_conf=conf), ("spark.sql.ansi.enabled",))
    assert message in str(refused.value)


def test_one_without_a_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must read spark\.name=value"):
        settings(tmp_path, spark_conf="spark.cores.max")
