"""A captured table's rows at a position of the source, in a file."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from psycopg import sql

from headrace.sources.part import Part
from headrace.sources.postgres.bulk.columns import Inexact
from headrace.sources.postgres.bulk.ranges import ALL_PAGES
from headrace.sources.postgres.bulk.reading import Reader
from headrace.sources.schema import SourceSchema

if TYPE_CHECKING:
    from headrace.sources.postgres.position import Position

log = logging.getLogger(__name__)


def stage(
    position: Position, source: SourceSchema, arrow: pa.Schema, path: Path, part: Part | None = None
) -> None:
    """Write the rows as Parquet: by binary COPY, or row by row where that cannot give each value exactly.

    Args:
        arrow: names and types of the source columns.
        part: which rows; None: all of them.
    Raises:
        TerminalError, TransientError: the source does not let them be read.
    """
    wheres = [""] if part is None else list(_conditions(part, position))
    try:
        with Reader(position.dsn, position.snapshot) as reader:
            every = (reader.tables(source, arrow, ALL_PAGES, lambda: None, where=w) for w in wheres)
            _write(itertools.chain.from_iterable(every), arrow, path)
    except Inexact as error:
        log.debug("row by row: %s", error)
        every = (position.tables(source, arrow, where=where) for where in wheres)
        _write(itertools.chain.from_iterable(every), arrow, path)


def _conditions(part: Part, position: Position) -> Iterator[str]:
    return part.conditions(
        lambda name: sql.Identifier(name).as_string(position.connection),
        lambda value: sql.Literal(value).as_string(position.connection),
    )


def _write(tables: Iterator[pa.Table], arrow: pa.Schema, path: Path) -> None:
    with pq.ParquetWriter(path, arrow, compression="lz4") as writer:
        for rows in tables:
            writer.write_table(rows)
