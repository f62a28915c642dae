"""JVM artifacts by a lock: what Ivy has resolved once, fetched from its places in a Maven repository.

Ivy asks for every module's description one after the other, which takes a minute and a half. A lock names the
files themselves, with their digests, so that several come at once and nothing else is taken for them.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx

from headrace.errors import TerminalError, TransientError
from headrace.services import trust

FILE = "jars.lock"

CENTRAL = "https://repo1.maven.org/maven2"
REPOSITORY = "HEADRACE_MAVEN_REPOSITORY"
"""Environment variable with the address of another Maven repository that has the same files."""

AT_ONCE = 8
ATTEMPTS = 4


@dataclass(frozen=True)
class Artifact:
    """One file of a Maven repository.

    Args:
        configuration: that of `ivy.xml` which asks for it.
        path: below the repository's address.
        sha256: its digest, in hexadecimal digits.
    """

    configuration: str
    path: str
    sha256: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Lock:
    """The files that a definition resolves to.

    Args:
        made_for: digest of the definition that Ivy has resolved.
    """

    made_for: str
    artifacts: tuple[Artifact, ...]

    @classmethod
    def read(cls, file: Path) -> Self | None:
        """None where there is no lock. Raises TerminalError where the file is not one."""
        if not file.is_file():
            return None
        head, *lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        words = [tuple(line.split()) for line in lines]
        if any(len(parts) != 3 for parts in words):
            raise TerminalError(f"{file} is damaged. Next: `git checkout {file.name}`, or make it anew")
        return cls(head, tuple(Artifact(*parts) for parts in words))

    def write(self, file: Path, comment: str) -> None:
        """
        Args:
            comment: how it is made anew.
        """
        lines = [f"{a.configuration} {a.path} {a.sha256}" for a in self.artifacts]
        file.write_text("\n".join((f"# {comment}", self.made_for, *lines)) + "\n")


def locked(folder: Path, made_for: str) -> Lock:
    """What Ivy has put into `folder/CONFIGURATION/PATH`."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return Lock(made_for, tuple(_locked(file.relative_to(folder), file) for file in files))


def _locked(place: Path, file: Path) -> Artifact:
    configuration, *path = place.parts
    return Artifact(configuration, "/".join(path), hashlib.sha256(file.read_bytes()).hexdigest())


def fetch(artifacts: Sequence[Artifact], staged: Path, on_fetched: Callable[[int], None]) -> None:
    """Fetch the files into `staged/CONFIGURATION`.

    Args:
        on_fetched: is told how many are there.
    Raises:
        TransientError: one could not be had, or is not what the lock says.
    """
    for configuration in {artifact.configuration for artifact in artifacts}:
        (staged / configuration).mkdir(parents=True, exist_ok=True)
    repository = os.environ.get(REPOSITORY, CENTRAL).rstrip("/")
    with (
        httpx.Client(timeout=60, verify=_certificates(), follow_redirects=True) as client,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        work = [
            pool.submit(_fetch, client, repository, artifact, staged / artifact.configuration / artifact.name)
            for artifact in artifacts
        ]
        try:
            for done, fetched in enumerate(as_completed(work), 1):
                fetched.result()
                on_fetched(done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fetch(client: httpx.Client, repository: str, artifact: Artifact, target: Path) -> None:
    url = f"{repository}/{artifact.path}"
    content = _content(client, url)
    found = hashlib.sha256(content).hexdigest()
    if found != artifact.sha256:
        raise TransientError(
            f"{url} is not the file of {FILE}: its SHA-256 is {found}, not {artifact.sha256}. Next: look at "
            f"what answers there, or name another repository in {REPOSITORY}"
        )
    target.write_bytes(content)


def _content(client: httpx.Client, url: str) -> bytes:
    for attempt in range(ATTEMPTS):
        try:
            response = client.get(url)
            if response.is_success:
                return response.content
            why = f"HTTP {response.status_code}"
            if response.is_client_error and response.status_code != httpx.codes.TOO_MANY_REQUESTS:
                break
        except httpx.TransportError as error:
            why = str(error) or type(error).__name__
        time.sleep(2**attempt / 4)
    raise TransientError(
        f"{url} could not be fetched: {why}. Next: check the network, or name a Maven repository that can be "
        f"reached in {REPOSITORY}; then run the command again"
    )


def _certificates() -> ssl.SSLContext | bool:
    """What the system trusts, a company's certificate, too; the library's own list where it has none."""
    return ssl.create_default_context() if trust.trusted() else True
