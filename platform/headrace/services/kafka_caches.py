"""The ahead-of-time caches of Kafka and Kafka Connect: for a training run both start, once, and end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from headrace import aot_caches
from headrace.aot_caches import AotCache
from headrace.errors import HeadraceError, TransientError
from headrace.java import find_java
from headrace.services import health
from headrace.services.programs import kafka
from headrace.services.programs.program import Program
from headrace.services.scratch import scratch_settings
from headrace.settings import LOOPBACK, Settings
from headrace.sources.connect import ConnectClient, ConnectorFile

MAKING = "making ahead-of-time caches of classes, with which Kafka and Kafka Connect start faster"

_NOWHERE = ConnectorFile(
    "nowhere",
    {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": LOOPBACK,
        "database.port": "1",
        "database.user": "nobody",
        "database.dbname": "nothing",
        "topic.prefix": "nowhere",
    },
    Path("nowhere.json"),
)

START_SECONDS, STOP_SECONDS, POLL_SECONDS = 120.0, 120.0, 0.2


def renew(settings: Settings, report: Callable[[str], None]) -> None:
    """Make the caches where one is missing, unless the set-up failed to. See `aot_caches.renew`."""
    aot_caches.renew(_caches(settings), __spec__.name, MAKING, settings, report)


def _caches(settings: Settings) -> list[AotCache]:
    return [kafka.cache(settings, name) for name in kafka.CACHED]


def ensure(settings: Settings) -> None:
    """Make both caches.

    Raises:
        TransientError: one of the programs does not start, or does not end.
    """
    with ExitStack() as stack:
        project = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        made = {cache.program: stack.enter_context(cache.making()) for cache in _caches(settings)}
        own = stack.enter_context(scratch_settings(project, home=settings.home))
        java = find_java()
        stack.enter_context(_running(kafka.prepare_broker(own, java), made["kafka"], own))
        stack.enter_context(_running(kafka.prepare_connect(own, java), made["connect"], own))
        with ConnectClient(own.connect_rest) as client:
            client.wait_ready()
            with suppress(HeadraceError):  # the worker looks for the database before it takes the connector
                client.put_connector(_NOWHERE)
            client.names()


@contextmanager
def _running(program: Program, target: Path, settings: Settings) -> Iterator[None]:
    """The program while the block lasts; it writes its cache when it ends."""
    java, *rest = program.command
    own = kafka.cache(settings, program.name).reading()
    process = subprocess.Popen(
        [java, *aot_caches.recording(target), *(option for option in rest if option not in own)],
        cwd=program.directory,
        env=os.environ | dict(program.environment),
    )
    try:
        _wait(process, program, settings)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            # What it has written of its cache until then is not to become one.
            raise TransientError(f"{program.name} does not end in {STOP_SECONDS:.0f} s") from None


def _wait(process: subprocess.Popen[bytes], program: Program, settings: Settings) -> None:
    begun, last = time.monotonic(), ""
    while process.poll() is None and time.monotonic() - begun < START_SECONDS:
        try:
            health.check(settings, program.name)
            return
        except health.Unhealthy as error:
            last = str(error)
        time.sleep(POLL_SECONDS)
    raise TransientError(f"{program.name} does not start: {last}")


def main(arguments: Sequence[str]) -> int:
    """Make the caches of this checkout, if this Java can.

    Args:
        arguments: `--quiet` where the caller has said what is made.
    """
    settings, quiet = Settings.load(Path.cwd()), "--quiet" in arguments
    aot_caches.make(_caches(settings), lambda: ensure(settings), "Kafka", MAKING, quiet=quiet)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
