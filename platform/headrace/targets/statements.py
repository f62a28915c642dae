"""The SQL by which a table in PostgreSQL follows one of the warehouse. Text alone: it asks no server."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from psycopg.sql import SQL, Composable, Composed, Identifier

from headrace.targets.columns import Columns, column_type

STAGED = "headrace_staged"
"""The temporary table of a connection that rows are copied to."""

POSITIONS = "headrace_published"
"""What the tables of a schema stand at, in the same schema: written with their rows."""

ORDER, LIVE = "_order", "_live"
"""Of a staged row: which is the newest of its key, and whether it is there or was deleted."""


@dataclass(frozen=True)
class Statements:
    """
    Args:
        schema, table: the table's name in PostgreSQL.
        columns: its columns, as the warehouse has them.
        key: its primary key.
    """

    schema: str
    table: str
    columns: Columns
    key: tuple[str, ...]

    @property
    def target(self) -> Composable:
        return Identifier(self.schema, self.table)

    @property
    def positions(self) -> Composable:
        return Identifier(self.schema, POSITIONS)

    def create(self) -> Composed:
        """The table. NULLs in a key are equal, as they are in the warehouse: it has no PRIMARY KEY."""
        declared = [SQL("{} {}").format(Identifier(n), SQL(column_type(n, k))) for n, k in self.columns]
        return SQL("CREATE TABLE {} ({})").format(self.target, SQL(", ").join(declared))

    def create_key(self) -> Composed:
        return SQL("CREATE UNIQUE INDEX ON {} ({}) NULLS NOT DISTINCT").format(
            self.target, self._names(self.key)
        )

    def create_positions(self) -> Composed:
        return SQL(
            "CREATE TABLE IF NOT EXISTS {} (table_name text PRIMARY KEY, published text NOT NULL, "
            "warehouse text NOT NULL, changelog text NOT NULL, version bigint NOT NULL, "
            "source_time timestamp with time zone, published_at timestamp with time zone NOT NULL)"
        ).format(self.positions)

    def create_staged(self) -> Composed:
        """It is empty again at the end of each transaction, which leaves no dead rows anywhere."""
        staged = Identifier("pg_temp", STAGED)
        return SQL(
            "DROP TABLE IF EXISTS {staged}; CREATE TEMPORARY TABLE {name} ON COMMIT DELETE ROWS AS "
            "SELECT {columns}, 0::bigint AS {order}, "
            "true AS {live} FROM {target} WITH NO DATA"
        ).format(
            staged=staged,
            name=Identifier(STAGED),
            columns=self._names(),
            order=Identifier(ORDER),
            live=Identifier(LIVE),
            target=self.target,
        )

    def copy(self) -> Composed:
        return SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(
            Identifier("pg_temp", STAGED), self._names((*self._all, ORDER, LIVE))
        )

    def delete_dead(self, nullable: Set[str]) -> Composed:
        """Delete the rows whose newest staged state is none.

        Args:
            nullable: key columns in which a staged row has NULL.
        """
        return SQL("DELETE FROM {target} t USING ({newest}) s WHERE NOT s.{live} AND {same}").format(
            target=self.target, newest=self._newest(), live=Identifier(LIVE), same=self._same(nullable)
        )

    def upsert(self, *, different: bool = False) -> Composed:
        """Insert the newest staged state of each key, or let its row be that.

        Args:
            different: only where a row is another.
        """
        others = [n for n in self._all if n not in self.key]
        if not others:
            action: Composable = SQL("NOTHING")
        else:
            values = [SQL("{0} = excluded.{0}").format(Identifier(n)) for n in others]
            action = SQL("UPDATE SET ") + SQL(", ").join(values)
            if different:
                action += SQL(" WHERE ({}) IS DISTINCT FROM ({})").format(
                    self._names(others, "t"), self._names(others, "excluded")
                )
        return SQL(
            "INSERT INTO {target} AS t ({columns}) SELECT {columns} FROM ({newest}) s WHERE s.{live} "
            "ON CONFLICT ({key}) DO {action}"
        ).format(
            target=self.target,
            columns=self._names(),
            newest=self._newest(),
            live=Identifier(LIVE),
            key=self._names(self.key),
            action=action,
        )

    def delete_unknown(self, nullable: Set[str]) -> Composed:
        """Delete the rows whose keys are not staged."""
        return SQL("DELETE FROM {} t WHERE ").format(self.target) + self._unknown(nullable)

    def count_unknown(self, nullable: Set[str]) -> Composed:
        """Rows that are there and not staged."""
        return SQL("SELECT count(*) FROM {} t WHERE ").format(self.target) + self._unknown(nullable)

    def count_missing(self, nullable: Set[str]) -> Composed:
        """Rows that are staged and not there."""
        return SQL(
            "SELECT count(*) FROM {staged} s WHERE NOT EXISTS (SELECT FROM {target} t WHERE {same})"
        ).format(staged=Identifier("pg_temp", STAGED), target=self.target, same=self._same(nullable))

    def count_different(self, nullable: Set[str]) -> Composed:
        """Rows that are there under the same key, and others."""
        others = [n for n in self._all if n not in self.key]
        if not others:
            return Composed([SQL("SELECT 0")])
        return SQL(
            "SELECT count(*) FROM {staged} s JOIN {target} t ON {same} "
            "WHERE ({ours}) IS DISTINCT FROM ({theirs})"
        ).format(
            staged=Identifier("pg_temp", STAGED),
            target=self.target,
            same=self._same(nullable),
            ours=self._names(others, "s"),
            theirs=self._names(others, "t"),
        )

    def example_keys(self, nullable: Set[str], most: int) -> Composed:
        """Keys of rows that are not the same on both sides."""
        return SQL(
            "SELECT {key} FROM (SELECT {all} FROM {staged} EXCEPT SELECT {all} FROM {target}) d "
            "UNION SELECT {theirs} FROM {target} t WHERE {unknown} LIMIT {most}"
        ).format(
            key=self._names(self.key),
            all=self._names(),
            staged=Identifier("pg_temp", STAGED),
            target=self.target,
            theirs=self._names(self.key, "t"),
            unknown=self._unknown(nullable),
            most=SQL(str(int(most))),
        )

    @property
    def _all(self) -> list[str]:
        return [name for name, _ in self.columns]

    def _names(self, names: tuple[str, ...] | list[str] | None = None, of: str = "") -> Composed:
        found = self._all if names is None else names
        return SQL(", ").join([Identifier(of, n) if of else Identifier(n) for n in found])

    def _newest(self) -> Composed:
        return SQL("SELECT DISTINCT ON ({key}) * FROM {staged} ORDER BY {key}, {order} DESC").format(
            key=self._names(self.key), staged=Identifier("pg_temp", STAGED), order=Identifier(ORDER)
        )

    def _same(self, nullable: Set[str]) -> Composed:
        """Equal keys of `s` and `t`. An index serves columns without NULL, a hash join all of them."""
        terms: list[Composable] = []
        for name in self.key:
            ours, theirs = Identifier("s", name), Identifier("t", name)
            if name in nullable:
                terms += [
                    SQL("coalesce({}::text, '') = coalesce({}::text, '')").format(ours, theirs),
                    SQL("({} IS NULL) = ({} IS NULL)").format(ours, theirs),
                ]
            else:
                terms.append(SQL("{} = {}").format(ours, theirs))
        return SQL(" AND ").join(terms)

    def _unknown(self, nullable: Set[str]) -> Composed:
        return SQL("NOT EXISTS (SELECT FROM {} s WHERE {})").format(
            Identifier("pg_temp", STAGED), self._same(nullable)
        )
