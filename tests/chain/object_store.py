"""A real object store on this machine: versitygw, which serves a folder by the S3 interface.

Of the servers to be had from registries it is the one that keeps conditional puts: of four clients that put
the same new key at once, S3Proxy 3.0 let two or more win in 169 of 200 races, Adobe's S3Mock 5.2 in 72,
versitygw with its marks in extended attributes in none.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from chain_support import eventually

from headrace.services.scratch import free_ports
from headrace.settings import LOOPBACK

MODULE = "github.com/versity/versitygw"
VERSION = "v1.8.0"
BUCKET = "warehouse"
USER, PASSWORD = "headrace", "headrace-secret"


def program(home: Path) -> Path:
    """Built once from the Go module's sources. Skips where no Go is there, or it does not build."""
    place = home / "versitygw" / VERSION
    if (place / "versitygw").is_file():
        return place / "versitygw"
    if (go := shutil.which("go")) is None:
        pytest.skip("no object store to test with: no `go`, by which versitygw is built")
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "versitygw").is_file():
            command = [go, "install", f"{MODULE}/cmd/versitygw@{VERSION}"]
            done = subprocess.run(
                command, env={**os.environ, "GOBIN": str(place)}, capture_output=True, text=True, check=False
            )
            if done.returncode:
                pytest.skip(f"no object store to test with: {' '.join(command)}: {done.stderr[-400:]}")
    return place / "versitygw"


@dataclass
class ObjectServer:
    """
    Args:
        folder: the objects.
    """

    binary: Path
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def settings(self, folder: str) -> Mapping[str, str]:
        """A warehouse in a folder of the bucket."""
        return {
            "warehouse_url": f"s3://{BUCKET}/{folder}",
            "s3_endpoint": self.endpoint,
            "s3_access_key_id": USER,
            "s3_secret_access_key": PASSWORD,
        }

    def start(self) -> None:
        (self.folder / BUCKET).mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "ROOT_ACCESS_KEY": USER, "ROOT_SECRET_KEY": PASSWORD}
        command = [self.binary, "--port", f"{LOOPBACK}:{self.port}", "--quiet", "posix", self.folder]
        with self.folder.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        eventually("the object store answers", self._answers)

    def _answers(self) -> bool:
        return httpx.get(self.endpoint, trust_env=False, timeout=5).status_code == httpx.codes.FORBIDDEN

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@contextmanager
def object_server(folder: Path, home: Path) -> Iterator[ObjectServer]:
    """Up, with an empty bucket; stopped at the end."""
    [port] = free_ports(1)
    server = ObjectServer(program(home), folder, port)
    server.start()
    try:
        yield server
    finally:
        server.kill()
