"""The mutation check: each guard of the engine is switched off once, and a named test must notice.

    .venv/bin/python tests/mutants.py [NAME…]

Every mutant is a copy of the tree with one piece of text replaced. Exit code 1 where one survives, where a
text is not found, or where a test fails without any mutation. `tests/unit/test_mutants.py` looks for them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("platform", "tests", "layers", "deploy", "pyproject.toml", "benchmarks")
LIMIT = 600
"""Seconds for the tests of one mutant."""


@dataclass(frozen=True)
class Mutant:
    """
    Args:
        file: below `platform/headrace`.
        text: what is replaced; it stands in the file exactly once.
        tests: at least one of them must fail.
    """

    name: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        "states: that a table runs is said after it has left its flow",
        "engine/supervisor/failures.py",
        """        with self._observing:
            if table.name not in active:""",
        """        if True:
            if table.name not in active:""",
        ("tests/unit/engine/supervisor/test_failures.py::test_that_it_has_left_is_what_stays",),
    ),
    Mutant(
        "publish: changes are applied whatever the target stands at",
        "targets/postgres.py",
        "if self.position(lock=True) != before:",
        "if self.position(lock=True) is None:",
        ("tests/spark/test_publish.py::test_changes_are_applied_to_the_position_that_they_follow",),
    ),
    Mutant(
        "publish: a deleted row stays",
        "targets/statements.py",
        "WHERE NOT s.{live} AND {same}",
        "WHERE s.{live} AND {same}",
        ("tests/spark/test_publish.py::test_it_follows_inserts_updates_deletes_and_nulls",),
    ),
    Mutant(
        "sequence guard: an event that is older than the row is applied",
        "engine/ingest/driver.py",
        "if sequence(head.generation, e.lsn) > known)",
        "if sequence(head.generation, e.lsn) is not None)",
        ("tests/spark/test_ingest.py::test_a_late_event_loses_and_a_tombstone_blocks_resurrection",),
    ),
    Mutant(
        "frontier check: what is committed is applied again",
        "engine/ingest/driver.py",
        "fresh = [e for e in events if not covers(done, e.topic, e.partition, e.offset)]",
        "fresh = list(events)",
        ("tests/spark/test_ingest.py::test_a_batch_read_twice_is_below_the_frontier",),
    ),
    Mutant(
        "tombstones: a deleted row comes back",
        "engine/ingest/driver.py",
        "for k, s in table.store.deletes.find(absent).items() if absent else ():",
        "for k, s in ():",
        ("tests/spark/test_ingest.py::test_a_tombstone_blocks_after_compaction_and_restart",),
    ),
    Mutant(
        "erasure: the delete goes with its rows, and nothing blocks what is older",
        "store/erasure.py",
        "store.deletes.keep_keys(self._keys)",
        "pass",
        ("tests/unit/store/test_erasure.py::test_a_key_goes_with_all_that_tells_of_it",),
    ),
    Mutant(
        "erasure: the log goes on quoting values of what went",
        "store/snapshot.py",
        "logs.clean(self.path, needed=since, seconds=0)",
        "since += 0",
        ("tests/unit/store/test_erasure.py::test_a_key_goes_with_all_that_tells_of_it",),
    ),
    Mutant(
        "erasure: a reader that stands before the deletion is passed over",
        "engine/statements/erase.py",
        "if (at := other.store.commit.upstreams.get(name, 0)) < store.pin.through:",
        "if (at := 0) > store.pin.through:",
        (
            "tests/spark/test_erase.py::test_it_is_refused_where_it_would_not_last_or_somebody_needs_what_goes",
        ),
    ),
    Mutant(
        "accounting: duplicates are not counted",
        "engine/ingest/driver.py",
        "accounting.duplicate += len(change.events) - live",
        "accounting.duplicate += 0",
        ("tests/spark/test_ingest.py::test_a_late_event_loses_and_a_tombstone_blocks_resurrection",),
    ),
    Mutant(
        "accounting: rows that do not add up are committed",
        "store/record/account.py",
        "if problem := _unbalanced(commit, kinds, rows):",
        "if problem := _unbalanced(commit, {}, 0) and '':",
        ("tests/unit/store/record/test_account.py::test_what_does_not_balance_is_not_committed",),
    ),
    Mutant(
        "quarantine: rows that break one rule alone are in neither table",
        "engine/spark/query.py",
        'return marked.where(f"size({BROKEN}) > 0")',
        'return marked.where(f"size({BROKEN}) > 1")',
        ("tests/spark/test_quarantine.py::test_a_row_that_is_also_dropped_is_kept_in_quarantine",),
    ),
    Mutant(
        "transaction gate: half a transaction passes",
        "engine/ingest/gate.py",
        "ready, self._held = divide(data, waiting)",
        "ready, self._held = divide(data, set())",
        ("tests/unit/engine/ingest/test_gate.py::test_a_transaction_waits_for_its_other_table",),
    ),
    Mutant(
        "lease: two writers hold it",
        "storage/marked_file.py",
        "os.link(draft, place)",
        "place.write_text(text)",
        ("tests/unit/storage/test_marked_file.py",),
    ),
    Mutant(
        "lease: a server goes on that another one has followed",
        "store/lease.py",
        "if not kept:",
        "if False:",
        ("tests/unit/store/test_lease.py::test_a_holder_that_another_one_has_followed_ends",),
    ),
    Mutant(
        "takeover: a commit in hand is made after it",
        "store/changelog.py",
        "self.check_open()  # with the version in hand after which this commit comes, or fails",
        "pass",
        ("tests/unit/store/test_fence.py::test_a_writer_with_a_commit_in_hand_is_shut_out",),
    ),
    Mutant(
        "object store: two writers of a new object are both the first",
        "storage/object_path.py",
        '"create" if mark is None else {"e_tag": mark}',
        '"overwrite"',
        ("tests/unit/storage/test_object_path.py",),
    ),
    Mutant(
        "commit conflict: a foreign commit is taken for an own one",
        "store/changelog.py",
        'elif record is None or record.mode != "maintenance":',
        "elif False:",
        ("tests/unit/store/delta/test_files.py::test_a_foreign_commit_stops_the_table",),
    ),
    Mutant(
        "immutable bound: closed partitions change",
        "engine/table/immutable.py",
        "if not bound or column is None:",
        "if True:",
        ("tests/spark/test_immutable.py::test_changes_of_immutable_partitions_are_left_out",),
    ),
    Mutant(
        "audit: a row that breaks a critical expectation is committed",
        "engine/refresh/audit.py",
        "if not of_rows:",
        "if True:",
        ("tests/spark/test_audit.py::test_a_bad_row_is_stopped_in_the_stream_and_comes_in_once_it_may",),
    ),
    Mutant(
        "audit: a batch that breaks one of many rows is published",
        "engine/refresh/audit.py",
        "if not sets:",
        "if True:",
        ("tests/spark/test_audit.py::test_a_bad_batch_leaves_the_partitions_as_they_were",),
    ),
    Mutant(
        "doors: a suite runs Java code",
        "quality/doors.py",
        "if isinstance(node, exp.Anonymous) and node.name.lower() in REFLECTION:",
        "if False:",
        ("tests/unit/quality/test_doors.py",),
    ),
    Mutant(
        "doors: the token for reading does anything",
        "gateway/execution.py",
        "return isinstance(statement, _READING)",
        "return True",
        ("tests/unit/gateway/test_app.py::test_the_token_for_reading_reads_alone",),
    ),
    Mutant(
        "cases: rows that differ pass",
        "cases/outcome.py",
        "if not missing and not extra:",
        "if True:",
        ("tests/spark/test_cases.py::test_another_query_fails_in_every_mode",),
    ),
    Mutant(
        "identity of rows: a changed query is no change",
        "spec/identity.py",
        '"query": words(spec.query),',
        '"query": (),',
        ("tests/unit/planner/policy/test_changes.py",),
    ),
)


def copied(folder: Path) -> Path:
    """A copy of the tree."""
    tree = folder / "tree"
    tree.mkdir()
    for name in COPIED:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tree / name)
    return tree


def mutate(tree: Path, mutant: Mutant) -> None:
    path = tree / "platform" / "headrace" / mutant.file
    text = path.read_text()
    if text.count(mutant.text) != 1:
        raise SystemExit(f"{mutant.file}: the text of the mutant `{mutant.name}` is not there exactly once")
    path.write_text(text.replace(mutant.text, mutant.replacement))


def passes(tree: Path, tests: Sequence[str]) -> bool:
    """Whether all of these tests pass in this tree."""
    home = os.environ.get("HEADRACE_HOME", str(ROOT / ".headrace" / "runtime"))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree / "platform"), "HEADRACE_HOME": home},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    if run.returncode not in (0, 1):
        raise SystemExit(f"the tests {tests} did not run:\n{run.stdout[-3000:]}{run.stderr[-1000:]}")
    return run.returncode == 0


def main(names: Sequence[str]) -> int:
    """Check those whose names begin with one of `names`, or all."""
    chosen = [m for m in MUTANTS if not names or m.name.startswith(tuple(names))]
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        if not passes(copied(Path(folder)), sorted({test for m in chosen for test in m.tests})):
            raise SystemExit("the tests fail without any mutation")
    alive = 0
    for mutant in chosen:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            tree = copied(Path(folder))
            mutate(tree, mutant)
            survived = passes(tree, mutant.tests)
        alive += survived
        told = "SURVIVED" if survived else "killed"
        print(f"{told:9}{time.monotonic() - begun:6.1f} s  {mutant.name}", flush=True)
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
