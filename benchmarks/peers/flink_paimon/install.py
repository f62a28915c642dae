"""Fetching Flink, Paimon and the Kafka connector: from PyPI and Maven Central, all of them pinned."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from benchmarks.live.contender import Tell
from headrace.errors import TransientError
from headrace.services import runtime

FOLDER = Path(__file__).parent
REQUIREMENTS = FOLDER / "requirements.txt"
# The SQL client does not start without the class that reads its options for Python.
PARTS = ("lib", "bin", "opt/flink-sql-client-", "opt/flink-python-")


def install(home: Path, tell: Tell) -> None:
    """Flink to `home/flink/{lib,bin,opt}`, what it lacks to `home/jars/{lib,client}`."""
    home.mkdir(parents=True, exist_ok=True)
    stamp = home / "flink" / "stamp"
    if not stamp.is_file() or stamp.read_text() != REQUIREMENTS.read_text():
        tell("retrieving Flink (about 230 MB)")
        with tempfile.TemporaryDirectory(prefix="retrieving-", dir=home) as scratch:
            staged = Path(scratch) / "flink"
            _unpack(_download(Path(scratch)), staged)
            (staged / "stamp").write_text(REQUIREMENTS.read_text())
            shutil.rmtree(home / "flink", ignore_errors=True)
            staged.rename(home / "flink")
    runtime.ensure(home, tell, FOLDER)


def _download(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "-r", REQUIREMENTS, "-d", scratch]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    archive = next(scratch.glob("*.tar.gz"), None)
    if done.returncode != 0 or archive is None:
        raise TransientError(f"Flink could not be retrieved by pip:\n{done.stderr.strip()}\ntry again")
    return archive


def _unpack(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar:
            part = member.name.partition("/deps/")[2]
            content = tar.extractfile(member) if part.startswith(PARTS) else None
            if content is not None:
                (target / part).parent.mkdir(parents=True, exist_ok=True)
                with (target / part).open("wb") as out:
                    shutil.copyfileobj(content, out)
