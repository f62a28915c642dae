"""A standalone Flink cluster of one JobManager and one TaskManager, and its SQL client."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from benchmarks.peers.processes import Processes, tail
from headrace.errors import TerminalError
from headrace.java import find_java
from headrace.services.scratch import free_ports
from headrace.settings import LOOPBACK

FOLDER = Path(__file__).parent
START_SECONDS = 120
POLL_SECONDS = 0.25

# What Flink's own configuration opens to itself on Java 17.
_OPENS = [
    *("lang", "lang.reflect", "net", "io", "nio", "text", "time", "util"),
    *("util.concurrent", "util.concurrent.atomic", "util.concurrent.locks"),
]
MODULES = [
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENS),
]


@dataclass
class Cluster:
    """A cluster with its files in `directory`.

    Args:
        home: where Flink and what it lacks are installed.
        checkpoint_seconds: the interval of checkpoints, and so of commits.
        slots: of the TaskManager, which share its memory.
        memory: of the TaskManager's process.
    """

    home: Path
    directory: Path
    processes: Processes
    checkpoint_seconds: float
    slots: int
    memory: str

    def start(self) -> None:
        """Start both managers; return when all slots are free. Raises TerminalError where they do not."""
        rpc, rest = free_ports(2)
        self._api = httpx.Client(base_url=f"http://{LOOPBACK}:{rest}", timeout=30, trust_env=False)
        for folder in ("conf", "tmp", "checkpoints"):
            (self.directory / folder).mkdir(parents=True)
        (self.conf / "config.yaml").write_text(yaml.safe_dump(self._configuration(rpc, rest)))
        mains = {
            "jobmanager": ("org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint", "JM"),
            "taskmanager": ("org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "TM"),
        }
        for name, (main, short) in mains.items():
            jvm, arguments = self._resources(f"GET_{short}_RESOURCE_PARAMS")
            command = [*self._java(), *jvm, main, "--configDir", str(self.conf), *arguments]
            self.processes.start(name, command, self._environment)
        self._wait("the TaskManager's slots", lambda: self.get("/overview")["slots-available"] == self.slots)

    @property
    def conf(self) -> Path:
        return self.directory / "conf"

    def get(self, path: str) -> Any:
        """An answer of the JobManager's REST interface."""
        return self._api.get(path).raise_for_status().json()

    def submit(self, script: str, jobs: int) -> None:
        """Run a script of SQL that starts so many jobs; return when all run and have made a checkpoint."""
        file = self.directory / "chain.sql"
        file.write_text(script)
        log = self.processes.log("client")
        jars = [self.home / "flink" / "opt", self.home / "jars" / "client"]
        client = [*self._java(jars), "org.apache.flink.table.client.SqlClient", "embedded", "-f", str(file)]
        client += ["-hist", str(self.directory / "history")]
        with log.open("w") as out:
            done = subprocess.run(
                client, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=self._environment
            )
        started = self.get("/jobs/overview")["jobs"]
        if done.returncode != 0 or len(started) != jobs:
            raise TerminalError(f"Flink started {len(started)} jobs of {jobs}; {log} says:{tail(log)}")
        self._wait("all jobs", lambda: all(self._runs(job["jid"]) for job in started))

    def check(self) -> None:
        """Raise TerminalError where a process has ended, or a job, which Flink only writes to its log."""
        self.processes.check()
        for job in self.get("/jobs/overview")["jobs"]:
            if job["state"] in ("FAILED", "CANCELED"):
                raise TerminalError(f"a job of Flink's is {job['state']}: {self._why(job['jid'])}")

    def _why(self, job: str) -> str:
        history = self.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]
        causes = re.findall(r"^Caused by: (.*)$", history[0]["stacktrace"], re.MULTILINE) if history else []
        return str(causes[-1]) if causes else f"see {self.processes.log('jobmanager')}"

    def _runs(self, job: str) -> bool:
        details = self.get(f"/jobs/{job}")
        states = {vertex["status"] for vertex in details["vertices"]}
        if details["state"] != "RUNNING" or states != {"RUNNING"}:
            return False
        return bool(self.get(f"/jobs/{job}/checkpoints")["counts"]["completed"])

    def _wait(self, what: str, condition: Any) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            self.processes.check()
            try:
                if condition():
                    return
            except httpx.HTTPError:
                pass  # the JobManager does not answer yet
            time.sleep(POLL_SECONDS)
        log = self.processes.log("jobmanager")
        raise TerminalError(f"Flink waits for {what} after {START_SECONDS} s; {log} says:{tail(log)}")

    @property
    def _environment(self) -> dict[str, str]:
        return {"FLINK_CONF_DIR": str(self.conf)}

    def _java(self, more: Iterable[Path] = ()) -> list[str]:
        folders = [self.home / "flink" / "lib", self.home / "jars" / "lib", *more]
        path = ":".join(f"{folder}/*" for folder in folders)
        log4j = f"-Dlog4j.configurationFile={FOLDER / 'log4j.properties'}"
        return [str(find_java().binary), *MODULES, log4j, "-cp", path]

    def _resources(self, command: str) -> tuple[list[str], list[str]]:
        """How Flink divides a manager's memory: flags of its JVM, and arguments of its program."""
        helper = "org.apache.flink.runtime.util.bash.BashJavaUtils"
        call = [*self._java([self.home / "flink" / "bin"]), helper, command, "--configDir", str(self.conf)]
        done = subprocess.run(call, capture_output=True, text=True, env=self._environment)
        found = re.findall(r"^BASH_JAVA_UTILS_EXEC_RESULT:(.*)$", done.stdout, re.MULTILINE)
        if len(found) != 2:
            raise TerminalError(f"Flink's {helper} answers:\n{done.stdout}{done.stderr}")
        return found[0].split(), found[1].split()

    def _configuration(self, rpc: int, rest: int) -> dict[str, Any]:
        return {
            "jobmanager.rpc.address": LOOPBACK,
            "jobmanager.rpc.port": rpc,
            "jobmanager.bind-host": LOOPBACK,
            "rest.address": LOOPBACK,
            "rest.bind-address": LOOPBACK,
            "rest.port": rest,
            "taskmanager.host": LOOPBACK,
            "taskmanager.bind-host": LOOPBACK,
            "jobmanager.memory.process.size": "1024m",
            "taskmanager.memory.process.size": self.memory,
            "taskmanager.memory.managed.fraction": 0.2,
            "taskmanager.numberOfTaskSlots": self.slots,
            # The client's default is the number of cores: the third job would wait for slots in silence.
            "parallelism.default": 1,
            "execution.target": "remote",
            "execution.checkpointing.interval": f"{round(self.checkpoint_seconds * 1000)} ms",
            # Incremental ones, which are not the default, can stop for good at this interval: Flink 1.20.3
            # then logs `Attempt to reference unknown state`, and the checkpoint waits for its timeout.
            "execution.checkpointing.incremental": False,
            "execution.checkpointing.dir": (self.directory / "checkpoints").as_uri(),
            "execution.checkpointing.timeout": "10 min",
            "execution.checkpointing.tolerable-failed-checkpoints": 100,
            "state.backend.type": "rocksdb",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 3,
            "restart-strategy.fixed-delay.delay": "2 s",
            "table.local-time-zone": "UTC",
            # Paimon merges by key itself, and refuses anything else.
            "table.exec.sink.upsert-materialize": "NONE",
            "io.tmp.dirs": str(self.directory / "tmp"),
            "classloader.check-leaked-classloader": False,
            # Nothing is secured here, and the old Hadoop classes ask for what newer Javas lack.
            "security.delegation.tokens.enabled": False,
        }
