"""Fixtures shared by all tests. One Spark session serves a whole run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.catalog import Catalog


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The warehouse server's own Spark configuration, without its Spark Connect endpoint."""
    from headrace.engine import class_data
    from headrace.engine.session import build_session
    from headrace.settings import Settings

    project: Path = tmp_path_factory.mktemp("spark")
    settings = Settings(project=project, data=project, driver_memory="2g")
    settings.state.mkdir()
    class_data.renew(settings, print)  # as before a server starts
    session = build_session(settings, connect=False)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """An empty catalog."""
    from headrace.catalog import Catalog

    catalog = Catalog.in_directory(tmp_path / "state")
    yield catalog
    catalog.close()
