"""A Spark standalone cluster on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from chain_support import eventually

from headrace.java import find_java, launcher_home
from headrace.services.scratch import free_ports
from headrace.settings import LOOPBACK

HOME = Path(pyspark.__file__).parent
CLASSES = "org.apache.spark.deploy"


@dataclass
class Cluster:
    """
    Args:
        url: what `spark_master` is.
        page: the master's page.
        workers: the processes of the workers; their executors are processes below them.
    """

    url: str
    page: str
    workers: list[subprocess.Popen[bytes]]

    def state(self) -> dict[str, Any]:
        """What the master tells: workers, applications."""
        with urllib.request.urlopen(f"{self.page}/json/", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@contextmanager
def cluster(folder: Path, *, workers: int = 2, memory: str = "1g") -> Iterator[Cluster]:
    """Up with its workers; stopped at the end, by their processes.

    Args:
        folder: for the workers' scratch and logs.
        memory: of each worker.
    """
    port, page = free_ports(2)
    java = launcher_home(find_java(), folder)
    environment = {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "JAVA_HOME": str(java),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(HOME / "bin" / "spark-class"), *arguments]
        with (folder / f"{name}.log").open("wb") as log:
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder))
        return started[-1]

    url = f"spark://{LOOPBACK}:{port}"
    try:
        own = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(page)]
        start("master", f"{CLASSES}.master.Master", *own)
        made = Cluster(url, f"http://{LOOPBACK}:{page}", [])
        eventually("the master answers", lambda: made.state()["status"] == "ALIVE")
        for number in range(workers):
            place = folder / f"worker{number}"
            given = ["--host", LOOPBACK, "--cores", "1", "--memory", memory, "--work-dir", str(place)]
            given += ["--webui-port", "0", url]
            made.workers.append(start(f"worker{number}", f"{CLASSES}.worker.Worker", *given))
        eventually("its workers are there", lambda: made.state()["aliveworkers"] == workers)
        yield made
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(60)
