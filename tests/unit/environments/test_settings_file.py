"""An environment's settings: what is outside is the production's, what is inside its own."""

from __future__ import annotations

import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from headrace.environments.settings_file import free_ports, values_of, write
from headrace.errors import TerminalError
from headrace.settings import ENVIRONMENT_FILE, LOOPBACK, Settings


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout, whose file sets what is the production's."""
    place = tmp_path / "dev"
    place.mkdir()
    (place / "headrace.toml").write_text(
        f'warehouse_url = "file://{tmp_path}/prod"\ncatalog_url = "postgresql://a:b@c/d"\nstandby = true\n'
        'kafka_memory = "300m"\n'
    )
    return place


def made(tmp_path: Path, **settings: Any) -> Settings:
    place = tmp_path / "prod"
    place.mkdir()
    found = Settings(project=place, **settings)
    found.state.mkdir(parents=True)
    return found


def test_what_is_loaded_is_of_the_environment(tmp_path: Path, project: Path) -> None:
    source = made(tmp_path)
    source.postgres_password.write_text("p-w d")
    source.kafka_password.write_text('q"\\')
    source.connect_password.write_text("r")
    file = write(project, source, values_of(source, "dev") | free_ports(source))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = Settings.load(project)
    assert found.environment == "dev" and found.kafka_memory == "300m" and not found.standby
    assert found.warehouse == project / ".headrace/data/warehouse"
    assert found.catalog.startswith(f"sqlite:///{project}")
    assert (found.kafka_sasl_password, found.kafka_sasl_username) == ('q"\\', "headrace")
    assert found.kafka_bootstrap == source.kafka_bootstrap
    assert found.connect_rest == source.connect_rest and ":r@" in found.connect_rest
    assert set(found.ports.values()).isdisjoint(source.ports.values())
    # the source is followed by the same role, with the same password
    assert found.source_environment() == source.source_environment()


def test_an_external_cluster_and_a_bucket_are_named_as_there(tmp_path: Path, project: Path) -> None:
    source = made(
        tmp_path,
        warehouse_url="s3://lake/tables",
        s3_access_key_id="a",
        s3_secret_access_key="b",
        postgres_url="postgresql://u:p@db:5432/shop?sslmode=require",
        kafka_bootstrap_servers="k1:9092,k2:9092",
        connect_url="http://connect:8083",
        serves="shop",
    )
    write(project, source, values_of(source, "dev") | free_ports(source))
    found = Settings.load(project)
    assert str(found.warehouse) == "s3://lake/tables-dev" and found.object_store == source.object_store
    assert (found.postgres_url, found.served) == (source.postgres_url, ("shop",))
    assert (found.kafka_bootstrap, found.kafka_security_protocol) == ("k1:9092,k2:9092", "PLAINTEXT")


def test_ports_in_use_are_passed_over(tmp_path: Path) -> None:
    source = made(tmp_path)
    first = free_ports(source)
    assert {port - source.all_ports[name] for name, port in first.items()} in ({100}, {200}, {300})
    with socket.socket() as other:
        other.bind((LOOPBACK, first["gateway_port"]))
        assert free_ports(source)["gateway_port"] >= first["gateway_port"] + 100


def test_a_garbled_file_is_named(project: Path) -> None:
    (project / ENVIRONMENT_FILE).parent.mkdir()
    (project / ENVIRONMENT_FILE).write_text("environment = ")
    with pytest.raises(TerminalError, match=r"environment\.toml: not TOML"):
        Settings.load(project)
