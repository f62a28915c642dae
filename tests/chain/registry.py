"""A schema registry for tests, in memory, and its converter for Kafka Connect, both from Maven Central."""

from __future__ import annotations

import os
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from chain_support import eventually

from headrace.java import find_java
from headrace.services import runtime
from headrace.settings import LOOPBACK

DEFINITION = Path(__file__).resolve().parents[1] / "servers"
OWN, AS_CONFLUENT = "/apis/registry/v2", "/apis/ccompat/v7"
CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter"


def plugins(home: Path, folder: Path) -> Path:
    """A folder for `connect_plugins` with the converter, below another one that is there."""
    runtime.ensure(home, folder=DEFINITION)
    found = folder / "plugins"
    found.mkdir()
    (found / "avro").symlink_to(home / "jars" / "avro")
    return found


def converter(port: int, *, as_confluent: bool) -> dict[str, str]:
    """What a connector's file says to send Avro by the registry there.

    Args:
        as_confluent: ids of four bytes stand before the rows; else the converter's own way: in headers.
    """
    settings = {
        "": CONVERTER,
        ".apicurio.registry.url": f"http://{LOOPBACK}:{port}{OWN}",
        ".apicurio.registry.auto-register": "true",
    }
    if as_confluent:
        settings |= {
            ".apicurio.registry.as-confluent": "true",
            ".apicurio.registry.use-id": "contentId",
            ".apicurio.registry.headers.enabled": "false",
        }
    named = {f"{part}.converter{key}": value for part in ("key", "value") for key, value in settings.items()}
    return {"schema.name.adjustment.mode": "avro", **named}


@contextmanager
def registry(home: Path, port: int, folder: Path) -> Iterator[None]:
    """It answers while the block lasts.

    Args:
        folder: for its files.
    """
    runtime.ensure(home, folder=DEFINITION)
    [archive] = (home / "jars" / "registry").glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "registry", filter="data")
    [program] = (folder / "registry").glob("*-runner.jar")
    environment = {**os.environ, "QUARKUS_HTTP_HOST": LOOPBACK, "QUARKUS_HTTP_PORT": str(port)}
    command = [str(find_java().binary), "-Xmx256m", "-XX:+UseSerialGC", "-jar", str(program)]
    with (folder / "registry.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        eventually("the registry answers", lambda: httpx.get(f"http://{LOOPBACK}:{port}{OWN}/system/info"))
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
