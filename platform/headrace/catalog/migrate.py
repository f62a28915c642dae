"""Brings a catalog to the schema that this headrace knows, by Alembic's revisions in `migrations/`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from headrace.errors import TerminalError

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0007"
"""The newest revision."""

BEFORE_ALEMBIC = "0001"
"""The revision whose tables a catalog has that only has the table `schema_version`."""

_LOCK = 0x68656164  # any number that is the same for every headrace

_VERSION = sa.table("alembic_version", sa.column("version_num"))


def migrate(connection: sa.Connection) -> None:
    """Create the catalog's tables, or make of older ones what they are to be. Part of the transaction.

    Raises:
        TerminalError: a newer headrace wrote the catalog; it is left alone.
    """
    if connection.dialect.name == "postgresql":  # who opens an SQLite file has its write lock already
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    tables = sa.inspect(connection).get_table_names()
    found = revision(connection) if "alembic_version" in tables else None
    if found == HEAD:
        return
    from alembic import command  # a quarter of a second to load, and rarely needed
    from alembic.util import CommandError

    config = alembic_config(connection)
    if found is None and "schema_version" in tables:
        command.stamp(config, BEFORE_ALEMBIC)
    try:
        command.upgrade(config, HEAD)
    except CommandError:
        raise TerminalError(
            f"the catalog {connection.engine.url.render_as_string()} has revision {found}, this headrace "
            f"knows up to {HEAD}: run the headrace that wrote it, or set another `data` or `catalog_url`"
        ) from None


def revision(connection: sa.Connection) -> str | None:
    """That of a catalog that Alembic has made."""
    return connection.execute(sa.select(_VERSION.c.version_num)).scalar_one_or_none()


def alembic_config(connection: sa.Connection) -> Config:
    """Alembic's configuration for commands within the connection's transaction."""
    from alembic.config import Config

    config = Config()
    directory = Path(__file__).parent / "migrations"
    config.set_main_option("script_location", str(directory).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
