"""A key of an object store, with as much of `pathlib.Path` as tables need."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import IO, Any, NamedTuple

from headrace.storage.object_store import ObjectStore

SCHEME = "s3://"


class Stat(NamedTuple):
    """Bytes, and seconds since 1970: as `os.stat_result` names them."""

    st_size: int
    st_mtime: float


@dataclass(frozen=True, order=True)
class ObjectPath:
    """
    Args:
        bucket: its name.
        key: without a slash at either end.
    """

    bucket: str
    key: str
    store: ObjectStore = field(compare=False, repr=False)

    @classmethod
    def parse(cls, url: str, store: ObjectStore) -> ObjectPath:
        """Of `s3://bucket/key`, as it also reads with Spark's `s3a:`."""
        bucket, _, key = url.partition("://")[2].partition("/")
        return cls(bucket, key.strip("/"), store)

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key}"

    def __truediv__(self, more: str) -> ObjectPath:
        return ObjectPath(self.bucket, f"{self.key}/{more}", self.store)

    @property
    def name(self) -> str:
        return PurePosixPath(self.key).name

    @property
    def parent(self) -> ObjectPath:
        return ObjectPath(self.bucket, str(PurePosixPath(self.key).parent), self.store)

    def with_name(self, name: str) -> ObjectPath:
        return self.parent / name

    @property
    def _client(self) -> Any:
        return self.store.bucket(self.bucket)

    def is_file(self) -> bool:
        import obstore

        try:
            obstore.head(self._client, self.key)
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether any object lies below it: a store has no folders."""
        return next(self._below(), None) is not None

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def stat(self) -> Stat:
        """Raises FileNotFoundError."""
        import obstore

        found = obstore.head(self._client, self.key)
        return Stat(found["size"], found["last_modified"].timestamp())

    def read_bytes(self) -> bytes:
        """Raises FileNotFoundError."""
        import obstore

        return bytes(obstore.get(self._client, self.key).bytes())

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """All of it or, killed in between, nothing."""
        import obstore

        obstore.put(self._client, self.key, text.encode(encoding))

    def read_marked(self) -> tuple[str, str] | None:
        """Its text and the store's mark of this content (its entity tag); None where there is none."""
        import obstore

        try:
            found = obstore.get(self._client, self.key)
        except FileNotFoundError:
            return None
        return bytes(found.bytes()).decode(), str(found.meta["e_tag"])

    def write_if(self, text: str, mark: str | None) -> str | None:
        """Write where its content still has this mark (None: where there is none), by a conditional put.

        Returns:
            The mark of what was written; None where somebody else has written.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            mode: Any = "create" if mark is None else {"e_tag": mark}
            put = obstore.put(self._client, self.key, text.encode(), mode=mode)
        except (AlreadyExistsError, PreconditionError):
            return None
        return str(put["e_tag"])

    def copy(self, target: ObjectPath) -> None:
        """Let the store copy it to a key of the same bucket. Raises FileNotFoundError."""
        import obstore

        obstore.copy(self._client, self.key, target.key)

    def open(self, *, encoding: str = "utf-8") -> IO[str]:
        """Its text, read at once. Raises FileNotFoundError."""
        return io.StringIO(self.read_text(encoding))

    def unlink(self, missing_ok: bool = False) -> None:
        """A store does not tell whether there was anything: `missing_ok` is as good as true."""
        import obstore

        obstore.delete(self._client, self.key)

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False, mode: int = 0o777) -> None:
        """Nothing: a folder is there with its first object."""

    def rglob(self, pattern: str) -> Iterator[ObjectPath]:
        """What lies below and has a name of this pattern."""
        return (path for path in self._below() if fnmatchcase(path.name, pattern))

    def names(self) -> list[str]:
        """What lies in it directly: objects, and folders that have some."""
        import obstore

        found = obstore.list_with_delimiter(self._client, f"{self.key}/")
        keys = [entry["path"] for entry in found["objects"]] + list(found["common_prefixes"])
        return [PurePosixPath(key).name for key in keys]

    def remove_tree(self) -> None:
        """Everything below it."""
        import obstore

        for chunk in obstore.list(self._client, f"{self.key}/"):
            obstore.delete(self._client, [entry["path"] for entry in chunk])

    def _below(self) -> Iterator[ObjectPath]:
        import obstore

        for chunk in obstore.list(self._client, f"{self.key}/"):
            for entry in chunk:
                yield ObjectPath(self.bucket, entry["path"], self.store)
