"""Result rows on disk: each as one Arrow IPC stream, the oldest dropped when they grow too large."""

from __future__ import annotations

import shutil
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

from headrace.errors import TerminalError

if TYPE_CHECKING:
    import pyarrow as pa


class ResultRows:
    """Rows of finished statements. Thread-safe; begins empty.

    Args:
        directory: where the files stand; anything in it is from an earlier server and is deleted.
        limit_bytes: what all results together may take.
    """

    def __init__(self, directory: Path, *, limit_bytes: int) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, mode=0o700)
        self._directory = directory
        self._limit = limit_bytes
        self._sizes: dict[str, int] = {}  # in order of age
        self._lock = Lock()

    def put(self, id: str, rows: pa.Table) -> None:
        """Keep the rows. Raises TerminalError where they are larger than all results may be."""
        import pyarrow as pa

        if rows.nbytes > self._limit:
            raise TerminalError(
                f"the result has {rows.num_rows:,} rows and {rows.nbytes / 2**20:,.0f} MiB, the most is "
                f"{self._limit / 2**20:,.0f} MiB: select less, or add a LIMIT"
            )
        path = self._path(id)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=65_536)
        with self._lock:
            self._sizes[id] = path.stat().st_size
            oldest = iter(list(self._sizes))
            while sum(self._sizes.values()) > self._limit and (old := next(oldest)) != id:
                self._drop(old)

    def open(self, id: str) -> BinaryIO | None:
        """The rows as an Arrow IPC stream; None where they are kept no longer. The caller closes it."""
        try:
            return self._path(id).open("rb")
        except FileNotFoundError:
            return None

    def drop(self, id: str) -> None:
        """Forget the rows, if there are any. A stream that is open stays readable."""
        with self._lock:
            self._drop(id)

    def _drop(self, id: str) -> None:
        self._path(id).unlink(missing_ok=True)
        self._sizes.pop(id, None)

    def _path(self, id: str) -> Path:
        return self._directory / f"{id}.arrow"
