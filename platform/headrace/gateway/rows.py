"""Result rows on disk: each as one Arrow IPC stream, the oldest dropped when they grow too large."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Protocol

from headrace.errors import TerminalError

if TYPE_CHECKING:
    import pyarrow as pa


class Batches(Protocol):
    """Rows that come in batches, once; a result that nobody need hold in memory.

    Args:
        order: once all have come, their places in the order of the rows.
    """

    schema: pa.Schema
    order: list[int]

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


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

    def put(self, id: str, rows: pa.Table | Batches) -> None:
        """Keep the rows. Raises TerminalError once they are larger than all results may be."""
        import pyarrow as pa

        path = self._path(id)
        if isinstance(rows, pa.Table):
            self._write(path, rows.schema, rows.to_batches(max_chunksize=65_536))
        else:
            count = self._write(path, rows.schema, rows)
            if rows.order != list(range(count)):
                _sort(path, rows.order)
        with self._lock:
            self._sizes[id] = path.stat().st_size
            oldest = iter(list(self._sizes))
            while sum(self._sizes.values()) > self._limit and (old := next(oldest)) != id:
                self._drop(old)

    def _write(self, path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """
        Returns:
            How many batches there were.
        """
        import pyarrow as pa

        count, size, rows = 0, 0, 0
        try:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
                for batch in batches:
                    count, size, rows = count + 1, size + batch.nbytes, rows + batch.num_rows
                    if size > self._limit:
                        raise TerminalError(
                            f"the result has more than {self._limit / 2**20:,.0f} MiB, which its first "
                            f"{rows:,} rows take: select less, or add a LIMIT"
                        )
                    writer.write_batch(batch)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return count

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


def _sort(path: Path, order: Sequence[int]) -> None:
    """Put the batches of a file into this order."""
    import pyarrow as pa

    sorted_path = path.with_suffix(".sorted")
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        batches = list(reader)  # views of the file, whose pages come and go
        with pa.OSFile(str(sorted_path), "wb") as sink, pa.ipc.new_stream(sink, reader.schema) as writer:
            for at in order:
                writer.write_batch(batches[at])
    sorted_path.replace(path)
