"""What a catalog knows of its tables comes along into another one; who reads them does not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headrace.catalog import Catalog
from headrace.catalog.cloning import copy_catalog, definitions
from headrace.errors import TerminalError
from headrace.spec import load_table
from headrace.spec.model import RefreshMode

LAYER = """\
CREATE MATERIALIZED TABLE dwd.words (PRIMARY KEY (id))
FRESHNESS = INTERVAL '10' SECOND
AS SELECT id FROM stg.words
"""


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'catalog.db'}"


@pytest.fixture
def source(tmp_path: Path) -> str:
    """One table, which is suspended, was altered twice, and is read by somebody."""
    path = tmp_path / "layers" / "dwd" / "words.sql"
    path.parent.mkdir(parents=True)
    path.write_text(LAYER)
    place = url(tmp_path / "one")
    with closing(Catalog(place)) as catalog:
        spec = load_table(path)
        catalog.register(spec, RefreshMode.CONTINUOUS)
        catalog.register(spec, RefreshMode.INCREMENTAL, "first")
        catalog.register(spec, RefreshMode.FULL, "second")
        catalog.set_desired(spec.name, "SUSPENDED")
        catalog.readers.done("dwd.words", "somebody", 3)
    return place


def test_a_copy_knows_the_same_tables_and_no_readers(source: str, tmp_path: Path) -> None:
    copy_catalog(source, url(tmp_path / "two"))
    with closing(Catalog(source)) as one, closing(Catalog(url(tmp_path / "two"))) as two:
        assert two.rows() == one.rows() and two.row("dwd.words").desired == "SUSPENDED"
        assert [d.why for d in two.decisions.of(two.rows()[0].name)] == ["second", "first"]
        assert one.readers.all() and not two.readers.all()
    assert definitions(source) == definitions(url(tmp_path / "two")) == {"dwd.words": LAYER}


def test_only_a_catalog_of_the_same_version_is_read(source: str, tmp_path: Path) -> None:
    """Opening an older one would bring it up to date under whom it belongs to."""
    with sqlite3.connect(tmp_path / "one" / "catalog.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    with pytest.raises(TerminalError, match="has revision 0001"):
        copy_catalog(source, url(tmp_path / "two"))
    with pytest.raises(TerminalError, match="no table has run there"):
        definitions(url(tmp_path / "nowhere"))
