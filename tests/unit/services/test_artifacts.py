"""JVM artifacts come as their lock says, or not at all."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.errors import TerminalError, TransientError
from headrace.services import artifacts, runtime
from headrace.services.artifacts import FILE, Artifact, Lock

JAR = "org/mill/wheel/1.0/wheel-1.0.jar"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Maven repository with one jar; what is asked of it is in `asked`."""
    root = tmp_path / "repository"
    (root / JAR).parent.mkdir(parents=True)
    (root / JAR).write_bytes(b"a jar")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *given: Quiet(*given, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv(artifacts.REPOSITORY, f"http://127.0.0.1:{server.server_port}/")
    yield root
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def define(tmp_path: Path) -> Callable[[bytes], Path]:
    """A definition of one jar, with a lock for what it should hold."""

    def make(content: bytes) -> Path:
        folder = tmp_path / "definition"
        folder.mkdir(exist_ok=True)
        (folder / "ivy.xml").write_text('<ivy-module><configurations><conf name="spark"/></configurations>')
        (folder / "ivysettings.xml").write_text("<ivysettings/>")
        wanted = Artifact("spark", JAR, hashlib.sha256(content).hexdigest())
        Lock(runtime.digest(folder), (wanted,)).write(folder / FILE, "by a test")
        return folder

    return make


def test_what_is_locked_is_fetched_once(
    repository: Path, define: Callable[[bytes], Path], tmp_path: Path
) -> None:
    folder, home, said = define(b"a jar"), tmp_path / "home", []
    runtime.ensure(home, said.append, folder)
    assert (home / "jars" / "spark" / "wheel-1.0.jar").read_bytes() == b"a jar"
    assert said == [runtime.FETCHING, f"{runtime.FETCHING}: 1"]
    runtime.ensure(home, said.append, folder)
    assert len(said) == 2


def test_another_file_is_not_taken(repository: Path, define: Callable[[bytes], Path], tmp_path: Path) -> None:
    with pytest.raises(TransientError, match=r"wheel-1.0.jar is not the file of jars.lock: its SHA-256 is "):
        runtime.ensure(tmp_path / "home", folder=define(b"another"))
    assert not runtime.is_current(tmp_path / "home", tmp_path / "definition")


def test_what_is_not_there_is_named(
    repository: Path, define: Callable[[bytes], Path], tmp_path: Path
) -> None:
    (repository / JAR).unlink()
    with pytest.raises(TransientError, match=r"wheel-1.0.jar could not be fetched: HTTP 404. Next: .*MAVEN"):
        runtime.ensure(tmp_path / "home", folder=define(b"a jar"))


def test_a_damaged_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("# c\nabc\nspark a/b.jar\n")
    with pytest.raises(TerminalError, match="is damaged"):
        Lock.read(tmp_path / FILE)


def test_a_changed_definition_does_not_go_by_an_old_lock(
    define: Callable[[bytes], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = define(b"a jar")
    (folder / "ivy.xml").write_text((folder / "ivy.xml").read_text() + "<!-- another -->")
    resolved = []
    monkeypatch.setattr(runtime, "resolve", lambda *given: resolved.append(given) or given[2].mkdir())
    runtime.ensure(tmp_path / "home", folder=folder)
    assert len(resolved) == 1


def test_the_lock_is_that_of_the_definition() -> None:
    folder = runtime.definition()
    lock = Lock.read(folder / FILE)
    assert lock is not None and lock.made_for == runtime.digest(folder), f"Next: `{runtime.RELOCK}`"
    assert {a.configuration for a in lock.artifacts} == {"spark", "s3", "kafka", "plugins"}
