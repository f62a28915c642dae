"""Functions of PostgreSQL that following a source calls, and whether a role may.

Every role may call them as PostgreSQL is installed. Administrators revoke such rights, and what then is not
asked is not noticed either: whoever follows the source must be told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

import psycopg

EMIT = "pg_logical_emit_message"
GUARDS = {
    "pg_control_system": "another database cluster in the source's place is not noticed, nor a lost slot",
    "pg_current_wal_lsn": "an older copy of the source is not noticed, nor a lost slot",
    "pg_walfile_name": "a source that was promoted or recovered is not noticed, nor a lost slot",
}
"""What is not noticed without each: input may be lost in silence."""

_PROOFS = {
    "pg_current_snapshot": "nothing can be verified, nor read again",
    "pg_export_snapshot": "nothing can be verified, nor read again",
    EMIT: "no position can be marked but in a marker table",
}
_WITHOUT = GUARDS | _PROOFS


@dataclass(frozen=True)
class Refused:
    """A function that a role may not call.

    Args:
        signature: with its arguments' types, as GRANT reads it.
    """

    name: str
    signature: str

    def grant(self, role: str) -> str:
        """The statement that mends it, for a superuser."""
        return f"GRANT EXECUTE ON FUNCTION {self.signature} TO {role};"

    def says(self, role: str) -> str:
        """What is wrong, and the SQL that mends it."""
        return f"`{role}` may not call {self.name}, so {_WITHOUT[self.name]}: {self.grant(role)}"


_REFUSED: LiteralString = """
SELECT proname, oid::regprocedure::text FROM pg_proc
WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY(%s)
    AND NOT has_function_privilege(coalesce(%s::name, current_user), oid, 'EXECUTE')
    AND NOT proargtypes::regtype[] @> '{bytea}' ORDER BY 2
"""


def refused(
    connection: psycopg.Connection[tuple[object, ...]], role: str | None = None
) -> tuple[Refused, ...]:
    """Those that a role may not call.

    Args:
        role: `public` for what every role may. Default: who is connected.
    """
    rows = connection.execute(_REFUSED, (list(_WITHOUT), role)).fetchall()
    return tuple(Refused(str(name), str(signature)) for name, signature in rows)
