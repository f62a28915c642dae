"""A standby of the embedded PostgreSQL, which follows it by its log."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from chain_support import eventually

from headrace.services.programs.postgres import OPTIONS, postmaster
from headrace.settings import LOOPBACK, Settings


@contextmanager
def standby(settings: Settings, port: int) -> Iterator[str]:
    """Its URL, as the owner; it is stopped at the end, where it was not already."""
    server = postmaster(settings)
    assert server is not None
    binaries = Path(server.exe()).parent
    account = pwd.getpwnam(server.username())
    home = Path(tempfile.mkdtemp(prefix="headrace-standby-"))
    home.chmod(0o711)
    data = home / "data"
    data.mkdir(mode=0o700)
    shutil.chown(data, account.pw_uid, account.pw_gid)
    root = os.geteuid() == 0
    identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if root else {}
    url = urlsplit(settings.postgres_dsn())
    copy = [binaries / "pg_basebackup", "-D", data, "-d", settings.postgres_dsn(), "-R", "-c", "fast"]
    subprocess.run(copy, check=True, cwd="/", **identity)  # type: ignore[call-overload]
    options = OPTIONS | {"port": str(port), "hot_standby_feedback": "on"}
    command = [str(binaries / "postgres"), "-D", str(data)]
    command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    with (home / "log").open("w") as log:
        process = subprocess.Popen(command, cwd="/", stdout=log, stderr=log, **identity)  # type: ignore[call-overload]
    try:
        own = urlunsplit(url._replace(netloc=f"{url.username}:{url.password}@{LOOPBACK}:{port}"))
        eventually("the standby answers", lambda: psycopg.connect(own).close() is None)
        yield own
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        shutil.rmtree(home)
