"""The manifests for Kubernetes: as its API has them, and as headrace's own files say it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.services.health import CHECKS
from headrace.settings import Settings

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "kubernetes"
MANIFESTS = FOLDER / "headrace.yaml"


@pytest.fixture(scope="module")
def resources() -> dict[tuple[str, str], dict[str, Any]]:
    found = yaml.safe_load_all(MANIFESTS.read_text())
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod(resources: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    spec: dict[str, Any] = resources["StatefulSet", "headrace"]["spec"]["template"]["spec"]
    return spec


def test_the_environment_is_settings(
    resources: dict[tuple[str, str], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = resources["ConfigMap", "headrace"]["data"] | resources["Secret", "headrace"]["stringData"]
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = Settings.load(tmp_path)
    assert settings.standby and not settings.supervised
    assert str(settings.warehouse).startswith("s3://") and settings.catalog.startswith("postgresql")
    known = {f"HEADRACE_{field.upper()}" for field in Settings.model_fields}
    assert given.keys() <= known


def test_each_container_runs_and_is_asked_as_in_compose(
    resources: dict[tuple[str, str], dict[str, Any]],
) -> None:
    containers = {container["name"]: container for container in pod(resources)["containers"]}
    assert containers.keys() == {name for name in CHECKS if name == "warehouse" or "dagster" in name}
    for name, container in containers.items():
        assert container["command"] == ["python", "-m", "headrace.services.run", name]
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container.get(kind, {}).get("exec", {}).get("command", [])
            assert not probe or probe[:4] == ["python", "-m", "headrace.services.health", name]
    serving = containers["warehouse"]["readinessProbe"]["exec"]["command"]
    assert serving[-1] == "--serving" != containers["warehouse"]["livenessProbe"]["exec"]["command"][-1]


def test_services_lead_to_the_pods(resources: dict[tuple[str, str], dict[str, Any]]) -> None:
    labels = resources["StatefulSet", "headrace"]["spec"]["template"]["metadata"]["labels"]
    ports = {p["name"] for c in pod(resources)["containers"] for p in c.get("ports", ())}
    for (kind, name), resource in resources.items():
        if kind == "Service":
            assert resource["spec"]["selector"].items() <= labels.items(), name
            targets = {port["targetPort"] for port in resource["spec"]["ports"] if "targetPort" in port}
            assert targets <= ports, name


@pytest.mark.long
def test_the_api_takes_them(tmp_path: Path) -> None:
    """By the schemas of Kubernetes' own API, in an environment of their own."""
    uv, environment = Path(sys.executable).with_name("uv"), tmp_path / "venv"
    python, lock = environment / "bin" / "python", FOLDER / "validate.lock"
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, environment],
        [
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            "--require-hashes",
            "-r",
            lock,
        ],
    ):
        subprocess.run(command, check=True, env=os.environ)
    validate = [environment / "bin" / "kubernetes-validate", "--strict", MANIFESTS]
    done = subprocess.run(validate, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(MANIFESTS.read_text().replace("replicas: 2", "replica: 2"))
    assert subprocess.run([*validate[:-1], wrong], capture_output=True, check=False).returncode != 0
