"""What applications and accidents do to ten tables, planned from a seed, and a player of it."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import psutil
import psycopg
from chain_support import eventually
from running_shop import Shop

from headrace.demo.multisets import compare, tuples
from headrace.demo.waiting import not_caught_up
from headrace.errors import HeadraceError
from headrace.services.programs.postgres import postmaster

Victim = Literal["postgres", "kafka", "connect", "warehouse", "jvm"]
VICTIMS: tuple[Victim, ...] = ("postgres", "kafka", "connect", "warehouse", "jvm")
"""`jvm` is the Java process under the warehouse server, alone."""

TABLES = tuple(f"chaos_{n}" for n in range(10))
TWO_COLUMNS = TABLES[9]
"""Its key is (grp, id); the others' is id."""

ROWS = 1_500
"""In each table before it is captured."""

COMMON = "id, grp, amount, n, label"
WRITERS = 3

CREATE = """
CREATE TABLE {table} (
  id bigint NOT NULL, grp int NOT NULL, amount numeric(12,2), n int, label text,
  at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY ({key})
);
ALTER TABLE {table} REPLICA IDENTITY FULL;
INSERT INTO {table} ({common})
SELECT g, g % 13, g * 0.37, g % 101, CASE WHEN g % 9 > 0 THEN 'row ' || g END
FROM generate_series(1, {rows}) AS g
"""

DERIVED = {
    "dws.chaos_groups": (
        "grp",
        "SELECT grp, count(*) AS cnt, sum(amount) AS amount, sum(n) AS n, min(label) AS label "
        "FROM stg.chaos_0 GROUP BY grp",
    ),
    "dwd.chaos_pairs": (
        "id",
        "SELECT a.id, a.grp, a.amount, b.amount AS other "
        "FROM stg.chaos_1 a JOIN stg.chaos_2 b ON b.id = a.id",
    ),
    "dws.chaos_pairs": (
        "grp",
        "SELECT grp, count(*) AS cnt, sum(amount) AS amount, sum(other) AS other "
        "FROM dwd.chaos_pairs GROUP BY grp",
    ),
    "dws.chaos_all": (
        "grp",
        "SELECT grp, count(*) AS cnt, sum(amount) AS amount FROM (SELECT grp, amount FROM stg.chaos_3 "
        "UNION ALL SELECT grp, amount FROM stg.chaos_4 UNION ALL SELECT grp, amount FROM stg.chaos_9) AS u "
        "GROUP BY grp",
    ),
}
"""Key and query of each derived table, the query in words that PostgreSQL reads, too."""


@dataclass(frozen=True)
class Transaction:
    statements: tuple[str, ...]


@dataclass(frozen=True)
class Kill:
    """Victims that are killed at once.

    Args:
        after: how many transactions are committed before, of all writers, which wait for it.
        ready: whether the warehouse server is let start, to be killed at work; else it may die starting.
    """

    after: int
    victims: tuple[Victim, ...]
    ready: bool


@dataclass(frozen=True)
class Plan:
    """Args:
    writers: what each does, one after the other. Columns of a table are changed by one of them alone.
    """

    seed: int
    writers: tuple[tuple[Transaction, ...], ...]
    kills: tuple[Kill, ...]

    @property
    def transactions(self) -> int:
        return sum(map(len, self.writers))


@dataclass
class _Columns:
    """What the plan has made of a table's columns so far; `extra` are those that no query names."""

    extra: dict[str, str] = field(default_factory=dict)
    named: int = 0
    wide: set[str] = field(default_factory=set)

    def new(self) -> str:
        self.named += 1
        return f"x{self.named}"


def make_plan(seed: int, *, transactions: int = 450, kills: int = 5, schema_changes: int = 9) -> Plan:
    """The same for the same arguments."""
    random = Random(seed)
    columns = {table: _Columns() for table in TABLES}
    writers: list[list[Transaction]] = [[] for _ in range(WRITERS)]
    changing = set(random.sample(range(transactions // 20, transactions), schema_changes))
    for number in range(transactions):
        writer = number % WRITERS
        own = [table for n, table in enumerate(TABLES) if n % WRITERS == writer]
        if number in changing:
            table = random.choice(own)
            statements = _schema_change(random, table, columns[table])
        else:
            statements = _change(random, random.choice(own), columns)
        writers[writer].append(Transaction(tuple(statements)))
    # The first one while the connector reads the tables for the first time.
    moments = [random.randrange(5, 40), *(random.randrange(40, transactions) for _ in range(kills - 1))]
    # Each has its turn before one has its second.
    order = random.sample(VICTIMS, len(VICTIMS)) + random.choices(VICTIMS, k=kills)
    chosen = []
    for moment, first in zip(sorted(moments), order, strict=False):
        both = {first, random.choice(VICTIMS)} if random.random() < 0.25 else {first}
        chosen.append(Kill(moment, tuple(sorted(both)), random.random() < 0.75))
    return Plan(seed, tuple(map(tuple, writers)), tuple(chosen))


def _schema_change(random: Random, table: str, columns: _Columns) -> list[str]:
    alter = f"ALTER TABLE {table}"
    kinds = ["add", "add", *(("drop", "rename", "retype") if columns.extra else ())]
    kinds += [name for name in ("n", "amount") if name not in columns.wide]
    match random.choice(kinds):
        case "add":
            name = columns.new()
            kind, default = random.choice(
                [("text", "'new'"), ("int", "7"), ("boolean", "true"), ("date", None)]
            )
            columns.extra[name] = kind
            given = f" DEFAULT {default}" if default else ""
            return [f"{alter} ADD COLUMN IF NOT EXISTS {name} {kind}{given}"]
        case "drop":
            name = random.choice(sorted(columns.extra))
            del columns.extra[name]
            return [f"{alter} DROP COLUMN IF EXISTS {name}"]
        case "rename":
            name, to = random.choice(sorted(columns.extra)), columns.new()
            columns.extra[to] = columns.extra.pop(name)
            return [f"{alter} RENAME COLUMN {name} TO {to}"]
        case "retype":  # its readers halt, by design
            name = random.choice(sorted(columns.extra))
            columns.extra[name] = "text"
            return [
                f"{alter} ALTER COLUMN {name} DROP DEFAULT, ALTER COLUMN {name} TYPE text USING {name}::text"
            ]
        case "n":
            columns.wide.add("n")
            return [f"{alter} ALTER COLUMN n TYPE bigint"]
        case _:
            columns.wide.add("amount")
            return [f"{alter} ALTER COLUMN amount TYPE numeric(16,4)"]


def _change(random: Random, table: str, columns: dict[str, _Columns]) -> list[str]:
    one = random.randrange(1, ROWS * 3 // 2)
    part = f"id % 37 = {random.randrange(37)}"
    other = random.choice(TABLES)
    amount = f"{random.randrange(-99_999, 99_999) / 100}"
    insert = (
        f"INSERT INTO {table} ({COMMON}) SELECT g, g % 13, {amount}, g % 101, "
        f"'seed {random.randrange(10**6)}' "
        "FROM generate_series({}, {}) AS g ON CONFLICT DO NOTHING"
    )
    few = insert.format(one, one + random.randrange(20))
    update = f"UPDATE {table} SET amount = {amount}, label = 'now {one}' WHERE id = {one}"
    delete = f"DELETE FROM {table} WHERE id BETWEEN {one} AND {one + random.randrange(10)}"
    move = (
        f"WITH gone AS (DELETE FROM {table} WHERE id = {one} RETURNING {COMMON}) "
        f"INSERT INTO {other} ({COMMON}) SELECT {COMMON} FROM gone ON CONFLICT DO NOTHING"
    )
    key = (
        f"UPDATE {table} SET id = id + {random.randrange(10**4, 10**6)}, grp = grp + 1 WHERE id = {one} "
        f"AND id < {ROWS * 2}"
    )
    match random.choices(
        ("insert", "update", "delete", "move", "key", "many", "extra", "again", "truncate", "mixed"),
        (24, 24, 14, 8, 6, 8, 8, 4, 2, 10),
    )[0]:
        case "insert":
            return [few]
        case "update":
            return [update]
        case "delete":
            return [delete]
        case "move":
            return [move]
        case "key":
            return [key]
        case "many":
            return [f"UPDATE {table} SET amount = amount + 1, n = n + 1 WHERE {part}"]
        case "extra" if columns[table].extra:
            name = random.choice(sorted(columns[table].extra))
            value = {"text": f"'v{one}'", "int": f"{one}", "boolean": "false", "date": "'2026-02-28'"}
            return [f"UPDATE {table} SET {name} = {value[columns[table].extra[name]]} WHERE {part}"]
        case "again":
            return [f"DELETE FROM {table} WHERE id = {one}", insert.format(one, one)]
        case "truncate":
            rest = [insert.format(1, random.randrange(200, ROWS))] if random.random() < 0.7 else []
            return [update, f"TRUNCATE {table}", *rest]
        case _:
            return [few, update, delete, move]


def create_tables(dsn: str) -> None:
    with psycopg.connect(dsn) as source:
        for table in TABLES:
            key = "grp, id" if table == TWO_COLUMNS else "id"
            source.execute(CREATE.format(table=table, key=key, common=COMMON, rows=ROWS).encode())


def layer_files() -> dict[str, str]:
    """Path in a project, and text."""
    files = {
        f"layers/stg/{table}.sql": f"CREATE MATERIALIZED TABLE stg.{table} FRESHNESS = INTERVAL '5' SECOND\n"
        f"AS SELECT * FROM shop.public.{table}\n"
        for table in TABLES
    }
    for name, (key, query) in DERIVED.items():
        files[f"layers/{name.replace('.', '/')}.sql"] = (
            f"CREATE MATERIALIZED TABLE {name} (PRIMARY KEY ({key})) FRESHNESS = INTERVAL '5' SECOND\n"
            f"AS {query}\n"
        )
    return files


class Writers:
    """Connections that carry out a plan, through the death of the server that they write to.

    Args:
        rate: transactions a second of all of them; an application that writes as fast as it can would be done
            before the first kill had any effect.
    """

    def __init__(self, dsn: str, plan: Plan, *, rate: float = 12.0) -> None:
        self._dsn, self._plan, self._pause = dsn, plan, len(plan.writers) / rate
        self._begun = self._done = 0
        self._limit = 0
        self._changed = threading.Condition()
        self._failed: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(w,), daemon=True) for w in plan.writers]

    @contextmanager
    def at_work(self) -> Iterator[Writers]:
        """Nothing is written before `let`."""
        for thread in self._threads:
            thread.start()
        yield self
        for thread in self._threads:
            thread.join()
        self.raise_if_failed()

    def let(self, transactions: int) -> None:
        """Let them go on to so many, all together."""
        with self._changed:
            self._limit = transactions
            self._changed.notify_all()

    def wait(self, done: int) -> None:
        """Until so many transactions are committed."""
        with self._changed:
            while self._done < done and not self._failed:
                self._changed.wait()
        self.raise_if_failed()

    def raise_if_failed(self) -> None:
        if self._failed:
            raise self._failed[0]

    def _run(self, transactions: tuple[Transaction, ...]) -> None:
        try:
            for transaction in transactions:
                with self._changed:
                    while self._begun >= self._limit:
                        self._changed.wait()
                    self._begun += 1
                self._commit(transaction)
                with self._changed:
                    self._done += 1
                    self._changed.notify_all()
                time.sleep(self._pause)
        except BaseException as error:
            with self._changed:
                self._failed.append(error)
                self._changed.notify_all()

    def _commit(self, transaction: Transaction) -> None:
        """Once at least: whether a commit came through is not known where the server died in it."""
        repeated = False
        while True:
            try:
                with psycopg.connect(self._dsn, connect_timeout=5) as source:
                    for statement in transaction.statements:
                        source.execute(statement.encode())
                return
            except (psycopg.errors.UndefinedColumn, psycopg.errors.DuplicateColumn):
                if not repeated:
                    raise
                return
            except psycopg.OperationalError:  # dead, starting, or a deadlock's victim
                repeated = True
                time.sleep(0.2)


def kill(shop: Shop, victim: Victim) -> None:
    """By SIGKILL, as it is or as soon as it runs again."""
    for process in eventually(f"{victim} runs", lambda: _processes(shop, victim)):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)


def _processes(shop: Shop, victim: Victim) -> list[psutil.Process]:
    if victim == "postgres":
        server = postmaster(shop.settings)
        return [server, *server.children(recursive=True)] if server else []
    pid = shop.stack.supervisor.process("warehouse" if victim == "jvm" else victim).pid
    if pid is None:
        return []
    process = psutil.Process(pid)
    return (
        [c for c in process.children(recursive=True) if c.name() == "java"] if victim == "jvm" else [process]
    )


def play(shop: Shop, plan: Plan) -> None:
    """Write and kill, while the connector reads the tables for the first time and then streams."""
    with Writers(shop.dsn, plan).at_work() as writers:
        registering = threading.Thread(target=lambda: eventually("the connector", lambda: _register(shop)))
        registering.start()
        nexts = [one.after for one in plan.kills[1:]] + [plan.transactions]
        writers.let(plan.kills[0].after)
        for one, then in zip(plan.kills, nexts, strict=True):
            writers.wait(one.after)
            writers.let((one.after + then) // 2)  # they write on while it is done
            if one.ready and {"warehouse", "jvm"} & set(one.victims):
                shop.wait_answers()
            print(f"after {one.after} transactions: kill {', '.join(one.victims)}", flush=True)
            for victim in one.victims:
                kill(shop, victim)
            writers.let(then)
        registering.join()


def _register(shop: Shop) -> bool:
    """As a person says `headrace up` again where it was not done."""
    shop.stack.register_connectors()
    return True


_NEXT = re.compile(r"Next: .*?`headrace (apply|resume|resync)(?: ([\w.]+))?`")
_STATEMENTS = {
    "apply": "APPLY",
    "resume": "ALTER MATERIALIZED TABLE {} RESUME",
    "resync": "ALTER MATERIALIZED TABLE {} RESYNC",
}


def next_statement(last_error: str) -> str | None:
    """What a halted table's message says is to be done; None where it names no command."""
    found = _NEXT.search(last_error)
    return _STATEMENTS[found[1]].format(found[2]) if found else None


def follow_what_halted_says(shop: Shop) -> list[str]:
    """Run the command that each halted table names, once each; returns the statements."""
    halted = [s for s in shop.client.status() if s.state in ("FAILED", "NEEDS RESYNC")]
    halted = [s for s in halted if "is being read again" not in (s.last_error or "")]
    statements = []
    for status in halted:
        statement = next_statement(status.last_error or "")
        assert statement is not None, (
            f"{status.table} is {status.state} and says no way on: {status.last_error}"
        )
        if statement not in statements:
            print(f"{status.table}: {status.last_error}", flush=True)
            statements.append(statement)
    for statement in statements:
        with suppress(HeadraceError):  # another table may have to be first; it is looked at again
            shop.client.run(statement)
    return statements


def settle(shop: Shop, tables: tuple[str, ...], dsn: str | None = None) -> None:
    """Until every table runs and has all of the source, which must rest."""
    with psycopg.connect(dsn or shop.dsn) as source:
        counts = {f"stg.{t}": source.execute(f"SELECT count(*) FROM {t}").fetchall()[0][0] for t in tables}

    def settled() -> bool:
        follow_what_halted_says(shop)
        outstanding = not_caught_up(shop.client.status(), counts)
        assert outstanding is None, outstanding
        return True

    eventually("every table has all of its source", settled)


def wrong_figures(shop: Shop, derived: dict[str, str], dsn: str | None = None) -> dict[str, str]:
    """Derived tables that are not what PostgreSQL computes from the source, each with what differs.

    Args:
        derived: a query of PostgreSQL for each.
    """
    wrong = {}
    with psycopg.connect(dsn or shop.dsn) as source:
        for table, query in derived.items():
            cursor = source.execute(query.encode())
            assert cursor.description is not None
            columns, expected = tuple(c.name for c in cursor.description), cursor.fetchall()
            live = shop.client.query(f"SELECT * FROM {table}")
            found = compare(columns, table=tuples(live, columns), expected=expected)
            if not found.equal:  # without rows, where a table of a join was truncated
                wrong[table] = str(found)
    return wrong


def in_postgres() -> dict[str, str]:
    """The derived tables' queries over the source's own tables."""
    texts = {table: query for table, (_, query) in DERIVED.items()}
    pairs = texts["dwd.chaos_pairs"]
    return {
        table: text.replace("dwd.chaos_pairs", f"({pairs}) AS pairs").replace("stg.", "public.")
        for table, text in texts.items()
    }
