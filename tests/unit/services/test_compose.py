from __future__ import annotations

import json
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from jsonschema import Draft202012Validator

from headrace.services.programs.kafka import broker_properties, connect_properties
from headrace.settings import SOURCE_ROLE, Settings, checkout
from headrace.sources.connect import ConnectorFile

ROOT = checkout()
assert ROOT is not None
DEPLOY = ROOT / "deploy"
IMAGES = dict(
    line.split("=", 1) for line in (DEPLOY / ".env").read_text().splitlines() if re.match(r"[A-Z_]+=", line)
)
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
JOBS = {"shop", "register"}
LONG_RUNNING = sorted(SERVICES.keys() - JOBS)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Those of this checkout, as they are before anything has run in it."""
    for name in os.environ:
        if name.startswith("HEADRACE_"):
            monkeypatch.delenv(name)
    return Settings.load(DEPLOY.parent).model_copy(update={"data": tmp_path})


def resolved(value: str) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda match: IMAGES[match[1]], value)


def test_valid_by_the_compose_specification() -> None:
    """The schema is the compose specification's own, under the licence beside it (Apache 2.0)."""
    schema = json.loads((Path(__file__).parent / "compose_spec" / "compose-spec.json").read_text())
    errors = [
        f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(COMPOSE)
    ]
    assert errors == []


def test_the_roles_are_those_of_the_native_stack() -> None:
    from headrace.services.catalogue import SERVICES as NATIVE

    assert set(NATIVE) <= set(SERVICES)
    assert SERVICES.keys() - NATIVE.keys() == {"loopback", *JOBS}


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_container_runs_is_a_module_that_exists(name: str) -> None:
    texts = json.dumps([SERVICES[name].get("command"), SERVICES[name].get("healthcheck")])
    for module in re.findall(r"headrace(?:\.\w+)+", texts):
        assert find_spec(module) is not None, module


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_is_pinned(name: str) -> None:
    image = resolved(SERVICES[name]["image"])
    assert re.search(r":\d+\.\d+(\.\d+)?[\w.-]*$", image), image


@pytest.mark.parametrize("name", LONG_RUNNING)
def test_every_long_running_service_has_a_health_check_and_comes_back(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
    assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", SERVICES)
def test_dependencies_wait_for_a_condition(name: str) -> None:
    for need, how in SERVICES[name].get("depends_on", {}).items():
        job = need in JOBS
        allowed = {"service_completed_successfully"} if job else {"service_healthy", "service_started"}
        assert how["condition"] in allowed


def test_only_loopback_is_published() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published and all(port.startswith("127.0.0.1:") for port in published)
    shared = {name: service.get("network_mode") for name, service in SERVICES.items() if name != "loopback"}
    assert set(shared.values()) == {"service:loopback"}


def test_named_volumes_are_declared() -> None:
    used = {
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if not volume.startswith((".", "/"))
    }
    assert used == set(COMPOSE["volumes"])


def test_ports_and_limits_are_those_of_the_native_stack(settings: Settings) -> None:
    kafka, native = SERVICES["kafka"]["environment"], broker_properties(settings)
    for name in (
        "auto.create.topics.enable",
        "log.retention.hours",
        "message.max.bytes",
        "controller.quorum.voters",
        "offsets.topic.replication.factor",
    ):
        assert str(kafka["KAFKA_" + name.replace(".", "_").upper()]) == native[name], name
    [advertised] = re.findall(r"//(.*)", native["advertised.listeners"])
    assert kafka["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{advertised}"
    connect, worker = SERVICES["connect"]["environment"], connect_properties(settings)
    assert connect["BOOTSTRAP_SERVERS"] == worker["bootstrap.servers"]
    assert connect["GROUP_ID"] == worker["group.id"]
    assert connect["OFFSET_STORAGE_TOPIC"] == worker["offset.storage.topic"]
    assert str(connect["OFFSET_FLUSH_INTERVAL_MS"]) == worker["offset.flush.interval.ms"]
    for name in (
        "config.providers",
        "config.providers.env.class",
        "producer.acks",
        "producer.max.request.size",
        "scheduled.rebalance.max.delay.ms",
    ):
        assert str(connect["CONNECT_" + name.replace(".", "_").upper()]) == worker[name], name


def test_clients_know_that_its_kafka_and_connect_want_no_login(settings: Settings) -> None:
    for name in [*LONG_RUNNING, "register"]:
        if SERVICES[name]["image"] == "${HEADRACE_IMAGE}":
            environment = SERVICES[name]["environment"]
            assert environment["HEADRACE_KAFKA_BOOTSTRAP_SERVERS"] == settings.kafka_bootstrap
            assert environment["HEADRACE_CONNECT_URL"] == settings.connect_rest


def test_the_same_connector_file_serves_both(settings: Settings) -> None:
    mounts = SERVICES["register"]["volumes"]
    assert "./connectors:/opt/headrace/deploy/connectors:ro" in mounts
    file = ConnectorFile.read(DEPLOY / "connectors" / "shop.json")
    placeholders = set(re.findall(r"\$\{env:(\w+)\}", json.dumps(file.config)))
    assert placeholders == set(settings.source_environment()) - {"HEADRACE_SOURCE_KAFKA"}
    assert set(settings.source_environment()) <= set(SERVICES["connect"]["environment"])
    allowed = connect_properties(settings)["config.providers.env.param.allowlist.pattern"]
    assert all(re.fullmatch(allowed, name) for name in placeholders)


def test_all_but_the_job_that_makes_the_shop_are_a_role_that_owns_nothing() -> None:
    users = {
        name: urlsplit(url).username
        for name, service in SERVICES.items()
        if (url := service.get("environment", {}).get("HEADRACE_POSTGRES_URL"))
    }
    assert users.pop("shop") == SERVICES["postgres"]["environment"]["POSTGRES_USER"]
    assert users.keys() >= {"register", "warehouse"} and set(users.values()) == {SOURCE_ROLE}
    assert SERVICES["connect"]["environment"]["HEADRACE_SOURCE_USER"] == SOURCE_ROLE


def test_versions_are_those_of_the_native_stack() -> None:
    ivy = (DEPLOY / "ivy.xml").read_text()
    kafka = re.search(r'name="kafka_2\.13" rev="([^"]+)"', ivy)
    debezium = re.search(r'name="debezium-connector-postgres" rev="([^"]+)"', ivy)
    assert kafka and IMAGES["KAFKA_IMAGE"].endswith(f":{kafka[1]}")
    assert debezium and IMAGES["CONNECT_IMAGE"].endswith(f":{debezium[1]}")
