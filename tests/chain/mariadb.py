"""A MariaDB server for tests: the files that Maven Central has, data of its own, loopback only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pymysql
from chain_support import eventually

from headrace.services import runtime
from headrace.settings import LOOPBACK

DEFINITION = Path(__file__).resolve().parents[1] / "servers"
OWNER = "root"


def installed(home: Path) -> Path:
    """The server's folder under `home`, fetched and unpacked where it is not there yet."""
    runtime.ensure(home, folder=DEFINITION)
    [jar] = (home / "jars" / "mariadb").glob("*.jar")
    place = jar.with_suffix("")
    if not place.is_dir():
        with tempfile.TemporaryDirectory(dir=jar.parent) as scratch, zipfile.ZipFile(jar) as archive:
            archive.extractall(scratch)
            [found] = Path(scratch).glob("ch/vorburger/*/*/linux")
            for program in (*(found / "bin").iterdir(), *(found / "scripts").iterdir()):
                program.chmod(0o755)
            found.rename(place)
    return place


@dataclass
class MariaDb:
    """A running server.

    Args:
        zone: of sessions that set none, after the next start.
    """

    home: Path
    data: Path
    port: int
    zone: str = "+00:00"
    _process: subprocess.Popen[bytes] | None = field(default=None)

    def connect(self, database: str | None = None) -> pymysql.Connection:
        """As its owner, in autocommit mode, with UTC times."""
        return pymysql.connect(
            host=LOOPBACK,
            port=self.port,
            user=OWNER,
            database=database,
            charset="utf8mb4",
            autocommit=True,
            init_command="SET time_zone = '+00:00', sql_mode = ''",
        )

    def execute(self, *statements: str, database: str | None = None) -> None:
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def forget_log(self) -> bool:
        """Remove the binary log up to now. Returns whether it is gone: a reader holds it for a while."""
        self.execute("FLUSH BINARY LOGS")
        [(newest, *_)] = self.rows("SHOW MASTER STATUS")
        self.execute(f"PURGE BINARY LOGS TO '{newest}'")
        return len(self.rows("SHOW BINARY LOGS")) == 1

    def start(self) -> None:
        options = {
            "no-defaults": None,
            "basedir": self.home,
            "datadir": self.data,
            "plugin-dir": self.home / "lib",
            "socket": self.data / "socket",
            "pid-file": self.data / "pid",
            "bind-address": LOOPBACK,
            "port": self.port,
            "server-id": 223344,
            "log-bin": "mysql-bin",
            "binlog-format": "ROW",
            "binlog-row-image": "FULL",
            "character-set-server": "utf8mb4",
            "default-time-zone": self.zone,
            "innodb-buffer-pool-size": "64M",
            "innodb-flush-log-at-trx-commit": 1,
            "sync-binlog": 1,
            "skip-name-resolve": None,
            **({"user": "root"} if os.geteuid() == 0 else {}),
        }
        command = [str(self.home / "bin" / "mariadbd")]
        command += [f"--{name}" if value is None else f"--{name}={value}" for name, value in options.items()]
        with (self.data.parent / "log").open("a") as log:
            self._process = subprocess.Popen(command, cwd="/", stdout=log, stderr=log)
        eventually("MariaDB answers", lambda: self.connect().close() is None)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None


@contextmanager
def mariadb(home: Path, port: int, zone: str) -> Iterator[MariaDb]:
    """A new server with a binary log; it is stopped at the end and its data are gone.

    Args:
        home: where the server's files are kept.
        zone: see `MariaDb`.
    """
    place = installed(home)
    folder = Path(tempfile.mkdtemp(prefix="headrace-mariadb-"))
    data = folder / "data"
    install = [str(place / "scripts" / "mariadb-install-db"), "--no-defaults", f"--basedir={place}"]
    install += [f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"]
    install += ["--user=root"] if os.geteuid() == 0 else []
    subprocess.run(install, check=True, cwd="/", capture_output=True)
    server = MariaDb(place, data, port, zone)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
