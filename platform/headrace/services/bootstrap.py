"""Makes `.venv` and `.headrace/runtime` of a checkout. Run by `./headrace` with the machine's Python.

Imports only the standard library: it runs before anything is installed.
"""

from __future__ import annotations

import fcntl
import os
import ssl
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STATE = ROOT / ".headrace"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"

AS_LOCKED = ("--no-deps", "--require-hashes", "-r")
"""How pip installs a lock. It is whole, and pip does not find `gql` in it for a `gql[requests]`."""


class SetupFailed(Exception):
    """The message says what to do."""


def main(stamp: str, stage: str) -> int:
    """Set up unless another process did so meanwhile, then write the stamp that `./headrace` compares.

    Args:
        stage: `packages` for what Python needs, `everything` for the JVM's artifacts as well.
    """
    STATE.mkdir(exist_ok=True)
    with (STATE / "setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another process is setting up; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if not _done("packages", stamp):
                _virtual_environment()
                _packages()
                _stamp("packages").write_text(stamp)
            if stage == "everything" and not _done("everything", stamp):
                _run("the JVM artifacts", [PYTHON, "-m", "headrace.services.setup"])
                # Beside each other: a training run mostly has one processor's work.
                with subprocess.Popen([PYTHON, "-m", "headrace.services.kafka_caches"], cwd=ROOT):
                    _run("the ahead-of-time cache", [PYTHON, "-m", "headrace.engine.spark.aot_cache"])
                _stamp("everything").write_text(stamp)
        except SetupFailed as error:
            print(f"headrace: {error}", file=sys.stderr)
            return 1
    return 0


def _stamp(stage: str) -> Path:
    return STATE / f"{stage}.stamp"


def _done(stage: str, stamp: str) -> bool:
    return _stamp(stage).is_file() and _stamp(stage).read_text() == stamp and PYTHON.exists()


def _virtual_environment() -> None:
    if _usable():
        # uv makes environments without pip.
        if subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode != 0:
            _run("pip", [PYTHON, "-m", "ensurepip"])
        return
    _say("making the virtual environment .venv")
    made = subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], capture_output=True, text=True)
    if made.returncode != 0:
        raise SetupFailed(
            f"`{sys.executable} -m venv` failed; install Python's venv module (Debian, Ubuntu: "
            f"apt install python3-venv) and run the command again\n{made.stdout}{made.stderr}"
        )


def _usable() -> bool:
    """An environment made elsewhere, or by another Python that is gone, must be made anew."""
    if not PYTHON.exists():
        return False
    check = f"import sys; sys.exit(sys.prefix != {str(VENV)!r} or not (3, 11) <= sys.version_info < (3, 14))"
    return subprocess.run([PYTHON, "-c", check], capture_output=True).returncode == 0


def _packages() -> None:
    environment = certificates() | os.environ | _caches()
    pip: list[str | Path] = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    lock = ROOT / "requirements.lock"
    _say("installing the packages of requirements.lock")
    uv: list[str | Path] = [PYTHON, "-m", "uv", "pip"]
    bootstrap = [*pip, "--require-hashes", "-r", ROOT / "deploy" / "bootstrap.lock"]
    with_uv = subprocess.run(bootstrap, capture_output=True, env=environment).returncode == 0 and (
        subprocess.run([*uv, "sync", "--quiet", "--require-hashes", lock], env=environment).returncode == 0
    )
    if not with_uv:
        _say("uv did not do it; installing with pip, which takes longer")
        _run("the packages", [*pip, *AS_LOCKED, lock], environment)
    install: list[str | Path] = [*uv, "install", "--quiet"] if with_uv else pip
    _run("headrace itself", [*install, "--no-deps", "--no-build-isolation", "-e", ROOT], environment)


def certificates() -> dict[str, str]:
    """uv brings certificates of its own and knows no company's; a slim image may have no others, though."""
    system = ssl.get_default_verify_paths()
    known = system.cafile or (system.capath and any(Path(system.capath).iterdir()))
    return {"UV_SYSTEM_CERTS": "true"} if known else {}


def _caches() -> dict[str, str]:
    """A home that cannot be written to (a service account's) must not stop the set-up."""
    if os.access(Path.home(), os.W_OK):
        return {}
    cache = ROOT / ".headrace" / "cache"
    return {"UV_CACHE_DIR": str(cache / "uv"), "PIP_CACHE_DIR": str(cache / "pip")}


def _run(what: str, command: list[str | Path], environment: dict[str, str] | None = None) -> None:
    if subprocess.run(command, env=environment, cwd=ROOT).returncode != 0:
        raise SetupFailed(f"setting up {what} failed (see above); run the command again once it is mended")


def _say(message: str) -> None:
    print(f"headrace: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
