"""Run by Alembic for each of its commands, within the transaction of `headrace.catalog.migrate`."""

from alembic import context

from headrace.catalog.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
