"""`apply`: edited tables get the rows of their new text, and everybody who reads them follows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from harness import Harness, layer
from orders_chain import HOURS, LAYERS, RANGE, nine_orders

from headrace.catalog import Catalog
from headrace.declared import deployed_tables
from headrace.engine.compaction.compaction import compact
from headrace.engine.proof.quarantine import Quarantine
from headrace.engine.statements import assemble as assembling
from headrace.engine.statements.apply import Apply, plan
from headrace.engine.statements.assemble import assemble
from headrace.engine.statements.blue_green import Green
from headrace.engine.supervisor.schedule import outdated
from headrace.engine.table.immutable import protect
from headrace.engine.table.table import Registry
from headrace.errors import ConstraintViolated, NeedsResync, TerminalError, TransientError
from headrace.progress import Progress
from headrace.results import ApplyResult
from headrace.spec import load_project
from headrace.store import creation

PAID, BY_USER = "dwd.paid", "dws.by_user"
CHAIN = {name: LAYERS[name] for name in ("dwd/paid", "dws/by_user", "dws/total")}
EVERYTHING = "SELECT *, 'x' AS mark FROM dwd.paid"


@dataclass
class Applying:
    """Edits the files of a warehouse and applies them, without flows."""

    warehouse: Harness
    catalog: Catalog
    resumed: list[str] = field(default_factory=list)
    gone: list[int] = field(default_factory=lambda: [5, 6])

    def __post_init__(self) -> None:
        self.register()

    def register(self) -> None:
        for table in self.warehouse.registry:
            self.catalog.register(self.warehouse.project.tables[table.name], table.mode)

    def edit(self, files: dict[str, str | None]) -> None:
        for name, text in files.items():
            path = self.warehouse.root / "project" / "layers" / f"{name}.sql"
            path.unlink() if text is None else path.write_text(text)

    def wanted(self) -> Registry:
        return assemble(
            self.warehouse.sessions.batch,
            load_project(self.warehouse.root / "project"),
            self.warehouse.schemas,
            warehouse=self.warehouse.root / "warehouse",
            threshold=timedelta(minutes=30),
        )

    def apply(
        self,
        files: dict[str, str | None] | None = None,
        *,
        green: Green | None = None,
        dry_run: bool = False,
    ) -> ApplyResult:
        self.edit(files or {})
        project = load_project(self.warehouse.root / "project")
        wanted = self.wanted()
        supervisor = SimpleNamespace(
            declaring=threading.RLock(),
            arranging=threading.RLock(),
            flows=[],
            admission=SimpleNamespace(paused=set()),
            declare=lambda _: [],
        )
        views = SimpleNamespace(renew=lambda _: None, drop=lambda _: None)
        work = Apply(
            self.warehouse.sessions.batch,
            self.warehouse.registry,
            self.catalog,
            cast("Any", supervisor),
            cast("Any", views),
            lambda table, said: (
                green.swap(table, said)
                if green and table in green
                else self.warehouse.backfill(str(table.name))
            ),
            lambda table: self.resumed.append(str(table.name)),
        )
        deployed = deployed_tables(self.catalog, project)
        todo = plan(self.warehouse.registry, wanted, deployed, project)
        prepare = green.build if green is not None else lambda *_: None
        result = work.run(
            todo,
            wanted,
            project,
            begin=lambda: None,
            prepare=prepare,
            dry_run=dry_run,
            progress=Progress(),
        )
        if not dry_run:
            self.warehouse.project = project
        return result

    def green(self) -> Green:
        warehouse = self.warehouse
        return Green(warehouse.sessions, warehouse.registry, [], warehouse.root / "green", "test")

    def goes_on(self) -> None:
        """The next changes of the source come through, and every table is its SQL's result."""
        self.warehouse.advance()
        self.warehouse.assert_parity()
        source = self.warehouse.source
        source.put("orders", order_id=2, user_id=1, amount="20.50", hour=HOURS[0])
        source.put("orders", order_id=4, user_id=1, amount="4.00", hour=HOURS[2])
        source.delete("orders", 4)
        source.delete("orders", self.gone.pop())
        source.put("orders", order_id=40, user_id=0, amount="4.00", hour=HOURS[1])
        self.warehouse.step()
        self.warehouse.assert_parity()


def changes_of(result: ApplyResult) -> dict[str, tuple[str, bool]]:
    return {t.table: (t.change, t.begins_again) for t in result.tables}


@pytest.fixture
def applying(harness: Callable[..., Harness], catalog: Catalog) -> Applying:
    return Applying(nine_orders(harness(CHAIN), compacted=True), catalog)


def paid(columns: str = "*", condition: str = "amount > 0", key: str = "order_id", **more: Any) -> str:
    return layer(PAID, key, f"SELECT {columns} FROM stg.orders {RANGE} AND {condition}", **more)


REORDERED, EXTENDED = "amount * 2 AS twice, user_id, order_id, amount, hour", "*, amount * 2 AS twice"


def test_another_calculation_corrects_what_differs_and_no_more(applying: Applying) -> None:
    warehouse = applying.warehouse
    before = warehouse.table(BY_USER).store.version
    result = applying.apply({"dwd/paid": paid(condition="amount > 3")})
    assert changes_of(result) == {PAID: ("LOGIC", False)}
    [table] = result.tables
    assert table.what == ["query"] and table.downstream == [BY_USER, "dws.total"]
    assert table.partitions == 3 and table.bytes > 0
    assert table.refreshed is not None
    assert (table.refreshed.deleted, table.refreshed.inserted, table.refreshed.rows) == (3, 0, 6)
    assert applying.resumed == [PAID]
    delta = DeltaTable(str(warehouse.table(PAID).store.snapshot.path))
    assert "amount > 3" in delta.metadata().configuration[creation.DEFINITION]
    warehouse.advance()
    assert warehouse.table(BY_USER).store.version == before + 1
    applying.goes_on()


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (
            paid("user_id, order_id, CAST(amount AS decimal(20,4)) AS amount, hour"),
            ["user_id", "order_id", "amount", "hour"],
        ),
        (paid(key="order_id, hour"), ["order_id", "user_id", "amount", "hour"]),
        (paid(partitioned=False).replace(RANGE + " AND", "WHERE"), ["order_id", "user_id", "amount", "hour"]),
    ],
    ids=["another order and type", "another key", "no partition"],
)
def test_another_shape_begins_again_with_all_who_read_it(
    applying: Applying, text: str, columns: list[str]
) -> None:
    warehouse = applying.warehouse
    version = warehouse.table(PAID).store.version
    result = applying.apply({"dwd/paid": text})
    readers = {BY_USER, "dws.total"}
    assert changes_of(result)[PAID] == ("LOGIC", True)
    changed = {name for name, (change, _) in changes_of(result).items() if change != "PROPERTIES"}
    assert changed == {PAID, *readers}
    assert set(applying.resumed) == {PAID, *readers}
    store = warehouse.table(PAID).store
    assert store.version == version + 1
    # Any engine reads the new columns, and a reader of older changes is told that there are none.
    delta = DeltaTable(str(store.snapshot.path))
    assert [f.name for f in delta.schema().fields] == columns
    assert delta.metadata().configuration[creation.DEFINITION] == text
    with pytest.raises(NeedsResync):
        store.changelog.read(version, store.version)
    warehouse.assert_parity()
    applying.goes_on()
    compact(warehouse.sessions.batch, warehouse.table(PAID), run_id="test")
    warehouse.open()  # as after a restart
    applying.goes_on()


def test_an_added_field_comes_in_its_place_and_no_reader_begins_again(applying: Applying) -> None:
    warehouse = applying.warehouse
    version, before = warehouse.table(PAID).store.version, warehouse.table(BY_USER).store.version
    result = applying.apply({"dwd/paid": paid("order_id, amount * 2 AS twice, user_id, amount, hour")})
    assert changes_of(result) == {PAID: ("LOGIC", False)}
    store = warehouse.table(PAID).store
    for path, columns in (
        (store.snapshot.path, store.schema.stored),
        (store.changelog.path, store.schema.logged),
    ):
        assert [f.name for f in DeltaTable(str(path)).schema().fields] == [name for name, _ in columns]
    assert store.changelog.read(0, version).num_rows == 9  # its changes are there as they were
    assert store.changelog.read(version, store.version).num_rows == 18
    assert sorted(warehouse.rows(PAID))[0][:2] == (1, 2)
    assert {row.twice for row in store.frame(warehouse.sessions.batch, version=version).collect()} == {None}
    warehouse.advance()
    assert warehouse.table(BY_USER).store.version == before  # what it reads is the same
    warehouse.assert_parity()
    applying.goes_on()
    compact(warehouse.sessions.batch, warehouse.table(PAID), run_id="test")
    warehouse.open()  # as after a restart
    applying.goes_on()
    assert changes_of(applying.apply({"dwd/paid": CHAIN["dwd/paid"]}))[PAID] == ("LOGIC", True)
    warehouse.advance()
    warehouse.assert_parity()


def test_a_removed_field_that_nobody_reads_goes(applying: Applying) -> None:
    two = LAYERS["dws/by_user"].replace(", sum(amount) AS amount", "")
    result = applying.apply({"dws/by_user": two})
    assert changes_of(result) == {BY_USER: ("LOGIC", True)}
    assert applying.warehouse.rows(BY_USER)[0] == (0, HOURS[0], 1)
    applying.goes_on()


def test_a_field_that_is_still_read_stays(applying: Applying) -> None:
    with pytest.raises(TerminalError, match="amount"):
        applying.apply({"dwd/paid": paid("order_id, user_id, hour")})
    applying.warehouse.assert_parity()


@pytest.mark.long
def test_columns_change_through_a_star(applying: Applying) -> None:
    applying.apply({"dws/all": layer("dws.all", "order_id", EVERYTHING, partitioned=False)})
    applying.warehouse.step()
    result = applying.apply({"dwd/paid": paid("*, amount * 2 AS twice")})
    assert changes_of(result)["dws.all"] == ("LOGIC", False)
    assert next(t.what for t in result.tables if t.table == "dws.all") == ["columns"]
    assert "twice" in applying.warehouse.table("dws.all").store.schema.names
    applying.goes_on()


@pytest.mark.long
def test_tables_come_and_go(applying: Applying) -> None:
    warehouse = applying.warehouse
    result = applying.apply({"dws/top": LAYERS["dws/top"], "dws/total": None})
    assert changes_of(result) == {"dws.total": ("REMOVED", False), "dws.top": ("ADDED", False)}
    assert [str(t.name) for t in warehouse.derived] == [PAID, BY_USER, "dws.top"]
    assert {row.name for row in applying.catalog.rows()} == {str(t.name) for t in warehouse.registry}
    applying.goes_on()
    assert len(warehouse.rows("dws.top")) == 6
    result = applying.apply({"dws/total": LAYERS["dws/total"]})  # what it held before is still there
    assert changes_of(result) == {"dws.total": ("ADDED", True)}
    applying.goes_on()


def test_what_leaves_rows_as_they_are_touches_none(applying: Applying) -> None:
    before = {str(t.name): t.store.version for t in applying.warehouse.registry}
    text = LAYERS["dws/by_user"].replace("'10' SECOND", "'2' HOUR")
    result = applying.apply({"dws/by_user": text})
    assert changes_of(result) == {BY_USER: ("PROPERTIES", False)}
    assert result.tables[0].what == ["FRESHNESS"]
    assert {str(t.name): t.store.version for t in applying.warehouse.registry} == before
    assert applying.apply().tables == []


def test_a_comment_in_a_query_is_no_change(applying: Applying) -> None:
    before = {str(t.name): t.store.version for t in applying.warehouse.registry}
    text = LAYERS["dws/by_user"].replace("SELECT", "-- by whom\nSELECT", 1)
    assert applying.apply({"dws/by_user": text}).tables == []
    applying.warehouse.step()
    assert {str(t.name): t.store.version for t in applying.warehouse.registry} == before


def test_what_was_in_quarantine_comes_in_once_the_rule_is_mended(applying: Applying) -> None:
    """By the batch that `apply` runs, and by the stream from then on; so in the tables that read it."""
    warehouse = applying.warehouse
    quarantine = Quarantine(warehouse.sessions, warehouse.registry, cast("Any", None))

    def ruled(limit: int) -> dict[str, str | None]:
        rule = f"order_id), CONSTRAINT small EXPECT (amount < {limit}) ON VIOLATION QUARANTINE)"
        return {"dwd/paid": LAYERS["dwd/paid"].replace("order_id))", rule, 1)}

    def aside() -> list[int]:
        return sorted(quarantine.rows(warehouse.table(PAID)).column("order_id").to_pylist())

    def held() -> list[int]:
        return [row[0] for row in warehouse.rows(PAID)]

    assert changes_of(applying.apply(ruled(5))) == {PAID: ("LOGIC", False)}
    warehouse.advance()
    assert (held(), aside()) == ([1, 2, 3, 4], [5, 6, 7, 8, 9])
    for key, amount in ((20, "7.00"), (21, "2.00"), (22, "9.50")):
        warehouse.source.put("orders", order_id=key, user_id=1, amount=amount, hour=HOURS[0])
    warehouse.step()
    assert (held(), aside()) == ([1, 2, 21, 3, 4], [5, 6, 7, 8, 9, 20, 22])
    result = applying.apply(ruled(9))
    assert changes_of(result) == {PAID: ("LOGIC", False)}
    assert result.tables[0].refreshed is not None and result.tables[0].refreshed.inserted == 5
    warehouse.advance()
    assert (held(), aside()) == ([1, 2, 20, 21, 3, 4, 5, 6, 7, 8], [9, 22])
    warehouse.source.put("orders", order_id=23, user_id=1, amount="8.00", hour=HOURS[0])
    warehouse.source.put("orders", order_id=9, user_id=1, amount="0.50", hour=HOURS[0])  # the data is mended
    warehouse.step()
    assert (held(), aside()) == ([1, 2, 20, 21, 23, 3, 4, 5, 6, 7, 8, 9], [22])
    warehouse.assert_parity()


def test_a_constraint_that_keeps_rows_computes_nothing_again(applying: Applying) -> None:
    before = {str(t.name): t.store.version for t in applying.warehouse.registry}
    text = LAYERS["dws/by_user"].replace(
        "hour))", "hour), CONSTRAINT few EXPECT (cnt < 3) ON VIOLATION WARN)", 1
    )
    result = applying.apply({"dws/by_user": text})
    assert changes_of(result) == {BY_USER: ("PROPERTIES", False)}
    assert {str(t.name): t.store.version for t in applying.warehouse.registry} == before
    assert result.tables[0].what == ["constraints"]
    assert applying.apply().tables == []


def test_a_store_of_an_earlier_version_is_of_the_same_text(
    harness: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembling, "template_hash", assembling.former_template)
    warehouse = nine_orders(harness(CHAIN))
    monkeypatch.undo()
    templates = {t.name: t.template for t in warehouse.registry}
    warehouse.open()
    assert all(t.template != templates[t.name] for t in warehouse.registry)
    assert [outdated(t) for t in warehouse.registry] == [None] * len(templates)
    warehouse.source.put("orders", order_id=2, user_id=1, amount="20.50", hour=HOURS[0])
    warehouse.step()
    warehouse.assert_parity()
    assert {t.store.commit.template for t in warehouse.registry} == {t.template for t in warehouse.registry}


def test_a_dry_run_changes_nothing(applying: Applying) -> None:
    tables = dict(applying.warehouse.registry.tables)
    result = applying.apply({"dwd/paid": paid("*, 1 AS one")}, dry_run=True)
    assert changes_of(result)[PAID] == ("LOGIC", False)
    assert result.tables[0].refreshed is None
    assert applying.warehouse.registry.tables == tables
    applying.goes_on()


def test_nobody_writes_by_the_old_text_any_more(applying: Applying) -> None:
    old = applying.warehouse.table(PAID)
    applying.apply({"dwd/paid": paid(condition="amount > 3")})
    with pytest.raises(TransientError, match="is defined anew meanwhile"):
        old.store.append(
            old.store.changelog.read(0, 1).select([*old.store.schema.stored_names, "_kind"]),
            old.store.commit,
            origin="stream",
        )
    with pytest.raises(TransientError, match="is defined anew meanwhile"):
        old.store.snapshot.overwrite_local(old.store.head().read(), old.store.commit, partitions=None)


@pytest.mark.long
@pytest.mark.parametrize("columns", [REORDERED, EXTENDED], ids=["begins again", "added"])
def test_rows_that_break_a_constraint_are_not_applied(applying: Applying, columns: str) -> None:
    before = applying.warehouse.rows(PAID)
    extra = ", CONSTRAINT small EXPECT (twice < 10) ON VIOLATION FAIL"
    with pytest.raises(ConstraintViolated, match="`small`"):
        applying.apply({"dwd/paid": paid(columns, extra=extra)})
    row = applying.catalog.row(PAID)
    assert row.state == "FAILED" and row.error is not None and "`headrace apply`" in row.error
    if columns == REORDERED:
        with pytest.raises(TerminalError, match=r"other columns than its definition. Next: `headr"):
            applying.warehouse.rows(PAID)
    else:
        assert {row[-1] for row in applying.warehouse.rows(PAID)} == {None}
    applying.apply({"dwd/paid": CHAIN["dwd/paid"]})
    assert applying.warehouse.rows(PAID) == before
    applying.goes_on()


@pytest.mark.long
@pytest.mark.parametrize("at", ["before", "between", "extended"])
def test_killed_in_the_middle_it_is_done_by_the_next_apply(
    applying: Applying, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        if at == "extended":
            quoted = creation.quoted  # of the snapshot, after the changelog was extended
            patch.setattr(creation, "quoted", lambda name: killed() if "snapshot" in name else quoted(name))
        else:
            patch.setattr(creation, "_create" if at == "between" else "rebuild", killed)
        applying.apply({"dwd/paid": paid(EXTENDED if at == "extended" else REORDERED)})
    warehouse = applying.warehouse
    warehouse.project = load_project(warehouse.root / "project")
    warehouse.open()
    assert not warehouse.table(PAID).store.fits
    result = applying.apply()
    assert changes_of(result)[PAID] == ("LOGIC", True)
    assert len(warehouse.rows(PAID)) == 9
    applying.goes_on()


def by_user(clauses: str = "") -> str:
    return LAYERS["dws/by_user"].replace(" AS SELECT", f" {clauses} AS SELECT", 1)


@pytest.mark.long
def test_another_text_from_a_time_on_keeps_what_was_before(applying: Applying) -> None:
    warehouse = applying.warehouse
    before = [row for row in warehouse.rows(BY_USER) if row[1] < HOURS[1]]
    start = "START_MODE = FROM_TIMESTAMP('2026-11-20 11:00:00')"
    text = by_user(start).replace("sum(amount)", "sum(-amount)")
    result = applying.apply({"dws/by_user": text})
    assert changes_of(result) == {BY_USER: ("LOGIC", False)}
    assert result.tables[0].what == ["query", "START_MODE"]
    rows = warehouse.rows(BY_USER)
    assert [row for row in rows if row[1] < HOURS[1]] == before
    assert {row[3] < 0 for row in rows if row[1] >= HOURS[1]} == {True}
    assert warehouse.verify(BY_USER).immutable_before == HOURS[1]
    applying.goes_on()
    assert [row for row in warehouse.rows(BY_USER) if row[1] < HOURS[1]] == before
    warehouse.open()
    applying.apply({"dws/by_user": by_user()})  # the bound stays
    assert [row for row in warehouse.rows(BY_USER) if row[1] < HOURS[1]] == before
    warehouse.assert_parity()


def test_immutable_partitions_are_not_lost_to_other_columns(applying: Applying) -> None:
    warehouse = applying.warehouse
    protect(warehouse.table(BY_USER), HOURS[1], run_id="test")
    rows = warehouse.rows(BY_USER)
    text = by_user().replace("count(*) AS cnt", "count(*) AS cnt, max(amount) AS most")
    with pytest.raises(TerminalError, match=r"would begin again.*RESET IMMUTABLE"):
        applying.apply({"dws/by_user": text})
    assert warehouse.rows(BY_USER) == rows
    assert applying.catalog.row(BY_USER).state != "FAILED"


@pytest.mark.long
def test_a_chain_is_built_aside_proven_and_swapped_in(
    applying: Applying, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse, green = applying.warehouse, applying.green()
    before = {name: warehouse.rows(name) for name in (PAID, BY_USER)}
    version = warehouse.table(PAID).store.version
    build = green.build

    def build_then_stream(*args: Any) -> None:
        build(*args)
        assert {
            name: warehouse.rows(name) for name in (PAID, BY_USER)
        } == before  # nobody sees the green ones
        for key in (50, 51):
            warehouse.source.put("orders", order_id=key, user_id=5, amount="8.00", hour=HOURS[0])
        warehouse.step()  # those that run go on meanwhile
        assert len(warehouse.rows(PAID)) == 11

    monkeypatch.setattr(green, "build", build_then_stream)
    texts = {"dwd/paid": paid(condition="amount > 3"), "dws/by_user": by_user().replace("sum(a", "sum(-a")}
    result = applying.apply(cast("Any", texts), green=green)
    assert changes_of(result) == {PAID: ("LOGIC", False), BY_USER: ("LOGIC", False)}
    assert [(p.table, p.equal) for p in green.proofs] == [(PAID, True), (BY_USER, True)]
    assert result.tables[0].refreshed is not None and result.tables[0].refreshed.deleted == 3
    assert warehouse.table(PAID).store.version == version + 2  # the stream's and the swap's
    warehouse.assert_parity()
    assert (5, HOURS[0], 2, -16) in [(u, h, n, int(a)) for u, h, n, a in warehouse.rows(BY_USER)]
    green.clear()
    assert not green.place.exists()
    applying.goes_on()
    warehouse.open()
    warehouse.assert_parity()


@pytest.mark.long
def test_another_shape_is_swapped_in_with_all_who_read_it(applying: Applying) -> None:
    warehouse, green = applying.warehouse, applying.green()
    result = applying.apply({"dwd/paid": paid(REORDERED)}, green=green)
    assert changes_of(result)[PAID] == ("LOGIC", True)
    assert {name for name, (change, _) in changes_of(result).items() if change == "RECOMPUTED"} == {
        BY_USER,
        "dws.total",
    }
    assert [p.equal for p in green.proofs] == [True] * 3
    assert len(warehouse.rows(PAID)[0]) == 5
    applying.goes_on()


def test_what_is_not_proven_is_not_applied(applying: Applying, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse, green = applying.warehouse, applying.green()
    rows = warehouse.rows(PAID)

    def damaged(table: Any) -> None:
        advance(table)
        store = table.store
        if store.version == 1:
            change = store.changelog.read(0, 1).select([*store.schema.stored_names, "_kind"]).slice(0, 1)
            gone = change.set_column(change.num_columns - 1, "_kind", [["-D"]])
            store.append(gone, replace(store.commit, version=2), origin="stream")

    advance = green._advance
    monkeypatch.setattr(green, "_advance", damaged)
    with pytest.raises(
        TerminalError, match=r"`dwd.paid`, built aside, differs .* 1 rows missing, 0 too many"
    ):
        applying.apply({"dwd/paid": paid(condition="amount > 3")}, green=green)
    assert warehouse.rows(PAID) == rows
    warehouse.assert_parity()
    assert applying.catalog.row(PAID).state != "FAILED"


def test_what_cannot_be_built_aside_is_told(applying: Applying) -> None:
    text = layer("dwd.new", "order_id", f"SELECT * FROM stg.orders {RANGE}")
    with pytest.raises(
        TerminalError, match=r"`dws.by_user` cannot be built aside: it reads dwd.new, which is"
    ):
        applying.apply(
            {"dwd/new": text, "dws/by_user": by_user().replace("paid", "new")}, green=applying.green()
        )
    applying.edit({"dwd/new": None, "dws/by_user": by_user()})
    stg = applying.warehouse.source.tables["orders"].layer("orders").replace("SELECT *", "SELECT *, 'x' AS m")
    with pytest.raises(TerminalError, match=r"`stg.orders` cannot be built aside: it reads a source"):
        applying.apply({"stg/orders": stg}, green=applying.green())


@pytest.mark.long
def test_a_table_that_cannot_be_applied_holds_up_none_but_its_readers(applying: Applying) -> None:
    extra = ", CONSTRAINT small EXPECT (twice < 10) ON VIOLATION FAIL"
    everything: dict[str, str | None] = {
        "dwd/paid": paid(EXTENDED, extra=extra),
        "dws/users": layer("dws.users", "user_id", "SELECT user_id, city FROM stg.users", partitioned=False),
    }
    with pytest.raises(ConstraintViolated, match="`small`"):
        applying.apply(everything)
    rows = applying.catalog.rows()
    assert {r.name for r in rows if r.state == "FAILED"} == {PAID}
    assert "`small`" in (applying.catalog.row(PAID).error or "")
    assert "dws.users" in {str(t.name) for t in applying.warehouse.registry}
    applying.apply({"dwd/paid": CHAIN["dwd/paid"]})
    applying.goes_on()
