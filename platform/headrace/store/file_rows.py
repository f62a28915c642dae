"""Some rows of a table's Parquet files, those of a key or of old versions: counted, and taken out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any, Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.storage.location import Location, arrow_place, delta_table
from headrace.store.delta.files import unused
from headrace.store.schema import VERSION

Values = Mapping[str, Any]
"""By column, as Arrow gives them to Python."""


@dataclass(frozen=True)
class Rows:
    """What one file has of the key: rows, and the newest version of these in a changelog, else 0."""

    count: int = 0
    newest: int = 0


class FileRows(Protocol):
    """Some of the rows that files have."""

    def of(self, file: Location) -> Rows: ...
    def without(self, rows: pa.Table) -> pa.Table: ...


@dataclass(frozen=True)
class OldRows:
    """Change rows of version `through` or before; None: all rows, of files that have no versions."""

    through: int | None

    def of(self, file: Location) -> Rows:
        """What a file has of them."""
        rows = _dataset(file)
        if self.through is None:
            return Rows(rows.count_rows())
        return Rows(rows.count_rows(filter=ds.field(VERSION) <= self.through), self.through)

    def without(self, rows: pa.Table) -> pa.Table:
        """The other rows."""
        return rows.slice(0, 0) if self.through is None else rows.filter(ds.field(VERSION) > self.through)


class KeyRows:
    """Rows that have all values of one of some places. A file never changes and is looked into once.

    Args:
        schema: Arrow schema of the files.
        places: the key's values by column; several where a table may carry it in several columns.
        version: column of the changelog version, None for files that have none.
        partition: column that is in the name of a file's folder and not in the file; None: all are in it.
    """

    def __init__(
        self,
        schema: pa.Schema,
        places: Sequence[Values],
        *,
        version: str | None = None,
        partition: str | None = None,
    ) -> None:
        self._schema = schema
        self._places = places
        self._version = version
        self._partition = partition
        self._known: dict[Location, Rows] = {}

    def of(self, file: Location) -> Rows:
        """What a file has of it. Where its folder does not tell its partition, it may be of any."""
        if file not in self._known:
            self._known[file] = self._look(file)
        return self._known[file]

    def without(self, rows: pa.Table) -> pa.Table:
        """The other rows."""
        return rows.filter(~self._predicate([dict(place) for place in self._places]))

    def _look(self, file: Location) -> Rows:
        places = [values for place in self._places if (values := self._in_file(place, file)) is not None]
        if not places:
            return Rows()
        names = {self._version or self._schema.names[0], *(name for values in places for name in values)}
        schema = pa.schema([self._schema.field(name) for name in sorted(names)])
        found = _dataset(file, schema).to_table(filter=self._predicate(places))
        if self._version is None or not found.num_rows:
            return Rows(found.num_rows)
        return Rows(found.num_rows, pc.max(found.column(self._version)).as_py())

    def _in_file(self, place: Values, file: Location) -> Values | None:
        """The values as the file itself has them; None where its folder says that it has not."""
        if (column := self._partition) is None or column not in place:
            return place
        folder = f"{column}="
        named = file.parent.name.startswith(folder)
        if named and unquote(file.parent.name.removeprefix(folder)) != str(place[column]):
            return None
        return {name: value for name, value in place.items() if name != column}

    def _predicate(self, places: Sequence[Values]) -> ds.Expression:
        """True or false, and never NULL."""
        return reduce(or_, (self._all_of(values) for values in places), ds.scalar(False))

    def _all_of(self, values: Values) -> ds.Expression:
        terms = []
        for name, value in values.items():
            kind = self._schema.field(name).type
            terms.append(ds.field(name).is_valid() & (ds.field(name) == pa.scalar(value, kind)))
        return reduce(and_, terms, ds.scalar(True))


def _dataset(file: Location, schema: pa.Schema | None = None) -> ds.Dataset:
    filesystem, path = arrow_place(file)
    return ds.dataset([path], schema=schema, filesystem=filesystem)


def purge(root: Location, rows: FileRows) -> int:
    """Delete files of a Delta table that have some of the rows and that its newest version is not made of.

    Returns:
        Number of files deleted.
    """
    gone = [file for file in unused(root, delta_table(root)) if rows.of(file).count]
    for file in gone:
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return len(gone)
