"""doctor: what the stack needs of this machine, and of the databases that it follows."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from headrace.cli._shared.errors import FAILED
from headrace.cli._shared.options import Json, Project, load_settings
from headrace.cli._shared.output import print_columns, print_json
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.settings import Settings

_DISK_BYTES = 4 * 2**30
_MEMORY_BYTES = 6 * 2**30


def doctor(project: Project = None, as_json: Json = False) -> None:
    """Check what the stack needs of this machine and of its sources.

    Java, JVM artifacts, ports, disk, object store, memory, layer files; of each source that answers its
    settings, privileges, keys, replica identities and publication, with the SQL that mends them. Ends with 1
    where something is amiss.
    """
    findings = diagnose(load_settings(project))
    if as_json:
        print_json([{"check": f.check, "ok": f.ok, "detail": f.detail} for f in findings])
    else:
        print_columns(
            ("check", "", "detail"), [(f.check, "ok" if f.ok else "NOT OK", f.detail) for f in findings]
        )
    if not all(f.ok for f in findings):
        raise typer.Exit(FAILED)


@dataclass(frozen=True)
class Finding:
    check: str
    ok: bool
    detail: str


def diagnose(settings: Settings) -> list[Finding]:
    """Look at everything; nothing is started, and nothing stays changed."""
    return [
        Finding("python", True, platform.python_version()),
        _java(),
        _artifacts(settings),
        _disk(settings),
        *_object_store(settings),
        _memory(),
        *_ports(settings),
        _layers(settings),
        *_sources(settings),
    ]


def _java() -> Finding:
    from headrace.java import find_java

    try:
        java = find_java()
    except HeadraceError as error:
        return Finding("java", False, str(error))
    return Finding("java", True, f"{java.version} at {java.binary}")


def _artifacts(settings: Settings) -> Finding:
    from headrace.services import runtime

    if runtime.is_current(settings.home):
        return Finding("artifacts", True, f"complete in {settings.home}")
    return Finding("artifacts", False, f"not in {settings.home} yet: `headrace up` fetches them")


def _disk(settings: Settings) -> Finding:
    place = next(p for p in (settings.data, *settings.data.parents) if p.exists())
    free = shutil.disk_usage(place).free
    text = f"{free / 2**30:.1f} GiB free in {place}"
    enough = free >= _DISK_BYTES
    return Finding("disk", enough, text if enough else f"{text}, {_DISK_BYTES / 2**30:.0f} GiB are needed")


def _object_store(settings: Settings) -> list[Finding]:
    """The store of `warehouse_url` must be there, and keep to conditional puts."""
    from headrace.storage.object_path import ObjectPath

    if not isinstance(warehouse := settings.warehouse, ObjectPath):
        return []
    from headrace.storage import conditional_puts

    try:
        conditional_puts.require(warehouse)
    except HeadraceError as error:
        return [Finding("object store", False, str(error))]
    return [Finding("object store", True, f"{warehouse} can be written and keeps to conditional puts")]


def _memory() -> Finding:
    import psutil

    total = psutil.virtual_memory().total
    text = f"{total / 2**30:.1f} GiB"
    enough = total >= _MEMORY_BYTES
    return Finding("memory", enough, text if enough else f"{text}: set smaller *_memory in headrace.toml")


def _ports(settings: Settings) -> list[Finding]:
    """A port must be free, or held by this stack."""
    import socket

    from headrace.services import processes

    ours = {process.pid for process in processes.marked(settings.state.resolve())}
    findings = []
    for name, port in settings.ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                findings.append(Finding(name, True, f"{port} is free"))
            except OSError:
                findings.append(_held(name, port, ours))
    return findings


def _held(name: str, port: int, ours: set[int]) -> Finding:
    import psutil

    for process in psutil.process_iter(["pid", "name"]):
        try:
            listens = any(
                c.laddr.port == port
                for c in process.net_connections(kind="tcp")
                if c.status == psutil.CONN_LISTEN
            )
        except psutil.Error:
            continue
        if listens:
            mine = process.pid in ours
            who = f"{process.info['name']} (pid {process.pid})"
            advice = "" if mine else f": stop it, or set `{name}` in headrace.toml"
            return Finding(name, mine, f"{port} is held by {'this stack' if mine else who}{advice}")
    return Finding(name, False, f"{port} is held by another user's program: set `{name}` in headrace.toml")


def _layers(settings: Settings) -> Finding:
    from headrace.declared import load_own

    try:
        project = load_own(settings)
    except HeadraceError as error:
        return Finding("layers", False, str(error))
    return Finding("layers", True, f"{len(project.tables)} tables, {len(project.connectors)} sources")


def _sources(settings: Settings) -> list[Finding]:
    from headrace.declared import load_own
    from headrace.sources.database import Check, database
    from headrace.sources.dsn import source_dsn

    try:
        project = load_own(settings)
    except HeadraceError:
        return []  # said by `layers`
    findings = []
    for name, connector in sorted(project.connectors.items()):
        read = [table for table in project.sources() if table.source == name]
        try:
            dsn = source_dsn(connector, settings.source_environment())
            checks = database(dsn).check(connector, read)
        except HeadraceError as error:  # the embedded one is started by `up`
            checks = [Check(True, f"not looked at: {error}")]
        findings += [Finding(f"source {name}", check.ok, check.detail) for check in checks]
    return findings
