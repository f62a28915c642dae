"""A container engine, and the images of `deploy/compose.yml`: pulled, or stand-ins by the same names.

Where no images can be pulled a base comes from `debootstrap`, and PostgreSQL, Kafka and Connect from the
wheel and jars that headrace has anyway (`tests/containers`). Only these differ from what a user runs: the
compose file is the same, and so is how headrace's own image is built.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ROOT / "tests" / "containers"
BASE = "headrace-test/debian:bookworm"
Done = subprocess.CompletedProcess[str]
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def images() -> dict[str, str]:
    """The images that the compose file names, by their variables."""
    text = (ROOT / "deploy" / ".env").read_text()
    return dict(re.findall(r"^(\w+_IMAGE)=(.+)$", text, re.MULTILINE))


@dataclass(frozen=True)
class Engine:
    """
    Args:
        environment: by which `docker` reaches it.
    """

    environment: Mapping[str, str]

    def docker(self, *arguments: str, seconds: float = 120, check: bool = True) -> Done:
        """A `docker` command. Its output is in what a failed one raises."""
        done = subprocess.run(
            ["docker", *arguments],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert not check or done.returncode == 0, f"docker {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
        return done

    def has(self, image: str) -> bool:
        return self.docker("image", "inspect", image, check=False).returncode == 0

    def pulls(self, image: str) -> bool:
        return self.docker("pull", image, seconds=600, check=False).returncode == 0


@contextmanager
def engine() -> Iterator[Engine]:
    """One that runs, or Debian's own started for the test. Skips where there is neither."""
    if shutil.which("docker") is None:
        pytest.skip("no `docker` command")
    running = Engine(dict(os.environ))
    if running.docker("info", check=False).returncode == 0:
        _needs_compose(running)
        yield running
        return
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        pytest.skip("no container engine answers, and none can be started: no `dockerd`, or not root")
    place = Path(tempfile.mkdtemp(prefix="headrace-docker-"))
    socket = f"unix://{place / 'docker.sock'}"
    folders = [f"--{name}={place / name}" for name in ("data-root", "exec-root", "pidfile")]
    with (place / "dockerd.log").open("w") as log:
        process = subprocess.Popen(["dockerd", "-H", socket, *folders], stdout=log, stderr=log)
        started = Engine({**os.environ, "DOCKER_HOST": socket, "DOCKER_BUILDKIT": "0"})
        try:
            end = time.monotonic() + 60
            while started.docker("info", check=False).returncode != 0:
                if process.poll() is not None or time.monotonic() > end:
                    pytest.skip(f"dockerd does not start: {(place / 'dockerd.log').read_text()[-500:]}")
                time.sleep(0.2)
            _needs_compose(started)
            yield started
        finally:
            process.terminate()
            process.wait(60)
            shutil.rmtree(place, ignore_errors=True)


def _needs_compose(of: Engine) -> None:
    if of.docker("compose", "version", check=False).returncode != 0:
        pytest.skip("no `docker compose` (version 2)")


def provide(of: Engine) -> None:
    """Let every image be there, as a stand-in where it cannot be pulled."""
    names = images()
    lacking = {v: n for v, n in names.items() if v != "HEADRACE_IMAGE" and not of.has(n) and not of.pulls(n)}
    if "PYTHON_IMAGE" in lacking:
        _base(of)
        _build(of, "base", names["PYTHON_IMAGE"])
    build = ["build", "--network", "host", "-f", "deploy/Dockerfile", "-t", names["HEADRACE_IMAGE"]]
    of.docker(*build, "--build-arg", f"PYTHON_IMAGE={names['PYTHON_IMAGE']}", ".", seconds=1800)
    for variable in lacking:
        kind = variable.removesuffix("_IMAGE").lower()
        if kind != "python":
            _build(of, kind, lacking[variable])


def _base(of: Engine) -> None:
    if of.has(BASE):
        return
    if shutil.which("debootstrap") is None:
        pytest.skip("images can be neither pulled nor built: no `debootstrap`")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        subprocess.run(
            ["debootstrap", "--variant=minbase", "bookworm", root], check=True, capture_output=True
        )
        archive = Path(folder) / "root.tar"
        subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
        of.docker("import", str(archive), BASE, seconds=600)


def _build(of: Engine, kind: str, image: str) -> None:
    names = images()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PARTS, folder, dirs_exist_ok=True)
        shutil.copy(CERTIFICATES, Path(folder) / "certificates.crt")
        _host_apt(Path(folder) / "apt.conf")
        given = [f"--build-arg={name}={names[name]}" for name in ("PYTHON_IMAGE", "HEADRACE_IMAGE")]
        file = str(Path(folder) / f"{kind}.Dockerfile")
        of.docker("build", "--network", "host", "-f", file, "-t", image, *given, folder, seconds=900)


def _host_apt(file: Path) -> None:
    """What this machine says of its mirrors of Debian: a proxy, and whether they are of a day in the past."""
    found = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout
    kept = [line for line in found.splitlines() if line.startswith(("Acquire::Check", "Acquire::http"))]
    file.write_text("\n".join(kept) + "\n")


@dataclass(frozen=True)
class Compose:
    """The stack of `deploy/compose.yml`, in a project of its own."""

    engine: Engine
    project: str

    def run(self, *arguments: str, seconds: float = 300, check: bool = True) -> Done:
        file = str(ROOT / "deploy" / "compose.yml")
        return self.engine.docker(
            "compose", "-p", self.project, "-f", file, *arguments, seconds=seconds, check=check
        )

    def headrace(self, *arguments: str, check: bool = True) -> Done:
        """`headrace …` where the README runs it."""
        return self.run("exec", "-T", "warehouse", "headrace", *arguments, seconds=600, check=check)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.headrace(*arguments, "--json", check=False).stdout)

    def container(self, service: str) -> str:
        return self.run("ps", "--all", "-q", service).stdout.strip()


@contextmanager
def up(of: Engine) -> Iterator[Compose]:
    """`up --wait`; gone afterwards, volumes and all."""
    stack = Compose(of, "headrace-test")
    try:
        stack.run("up", "--wait", "--no-build", "--pull", "never", seconds=900)
        yield stack
    finally:
        stack.run("down", "--volumes", "--timeout", "30", seconds=300, check=False)
