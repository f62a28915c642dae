"""What a table's commits have done to its rows: the sums that a record carries, and whether they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

from headrace.errors import TerminalError
from headrace.results import CommitAccount, RefreshDecision
from headrace.store.record.commits import Commit
from headrace.store.record.decision import Decision
from headrace.store.schema import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

SINCE, BEGAN = "since", "began"
"""In `Commit.totals`: the version after which they count, and the rows that the table had then."""

EFFECTS = ("inserted", "updated", "deleted")


def counted(head: Commit, commit: Commit, kinds: Mapping[str, int], miscounted: int = 0) -> Commit:
    """The record with the numbers of what it does to the table's rows.

    Args:
        head: the table's newest record before it.
        kinds: its change rows by kind.
        miscounted: rows that the table held beyond what `head` says.
    Raises:
        TerminalError: rows in and out do not balance.
    """
    inserted, updated, deleted = (kinds.get(kind, 0) for kind in (INSERT, UPDATE_AFTER, DELETE))
    rows = head.rows + miscounted + inserted - deleted
    if problem := _unbalanced(commit, kinds, rows):
        raise TerminalError(
            f"`{commit.table}`: {problem}; nothing was committed. "
            f"Next: `headrace refresh {commit.table} --all`"
        )
    totals = dict(head.totals) or {SINCE: head.version, BEGAN: head.rows}
    own = Counter({"inserted": inserted, "updated": updated, "deleted": deleted, "miscounted": miscounted})
    own["applied"] = sum(commit.accounting.get(name, 0) for name in EFFECTS)
    for name, n in commit.accounting.items():
        if name == "quarantined":
            own.update({f"quarantined {rule}": of_rule for rule, of_rule in n.items()})
        elif name not in EFFECTS:
            own[name] += n
    for name, n in own.items():
        if n:
            totals[name] = totals.get(name, 0) + n
    return replace(commit, rows=rows, kinds=dict(kinds), miscounted=miscounted, totals=totals)


def _unbalanced(commit: Commit, kinds: Mapping[str, int], rows: int) -> str:
    """Why the numbers of a commit cannot be right; empty where they can."""
    if rows < 0:
        return f"a change deletes rows that there are not: {dict(kinds)} would leave {rows}"
    refreshed = commit.accounting or commit.decision  # a repair may find two rows of a key
    if refreshed and kinds.get(UPDATE_BEFORE, 0) != kinds.get(UPDATE_AFTER, 0):
        return f"an update has a row before and one after, but there are {dict(kinds)}"
    if not (events := commit.accounting):
        return ""
    said = (events["inserted"], events["updated"], events["deleted"] + events.get("truncated", 0))
    done = tuple(kinds.get(kind, 0) for kind in (INSERT, UPDATE_AFTER, DELETE))
    return "" if said == done else f"its events have changed {said} rows, its changelog has {done}"


def account(commit: Commit) -> CommitAccount:
    """One commit as a line of its table's account, as the record tells it."""
    kinds, events = commit.kinds or {}, commit.accounting
    if isinstance(letters := events.get("quarantined"), int):  # what an earlier version called dead letters
        events = {**events, "quarantined": {}, "dead_letters": letters}
    inserted, deleted = kinds.get(INSERT, 0), kinds.get(DELETE, 0)
    return CommitAccount(
        version=commit.version,
        mode=commit.mode,
        reads=commit.reads,
        before=commit.rows - inserted + deleted - commit.miscounted,
        miscounted=commit.miscounted,
        inserted=inserted,
        updated=kinds.get(UPDATE_AFTER, 0),
        deleted=deleted,
        after=commit.rows,
        events=events,
        partitions=None if commit.partitions is None else len(commit.partitions),
    )


def accounts(commits: Iterable[tuple[datetime, Commit]]) -> list[CommitAccount]:
    """These commits as lines of their table's account, in the same order; `commits` as `told` gives them."""
    return [account(commit).model_copy(update={"committed_at": at}) for at, commit in commits]


def refresh_decisions(commits: Iterable[tuple[datetime, Commit]]) -> list[RefreshDecision]:
    """How the refreshes of these commits were chosen, in the same order; `commits` as `told` gives them."""
    decided = ((at, c.version, Decision.from_dict(c.decision)) for at, c in commits if c.decision)
    return [
        RefreshDecision(**d.as_dict(), committed_at=at, version=version) for at, version, d in decided if d
    ]


def problems(head: Commit, recent: Sequence[Commit | None], in_files: tuple[Commit, int] | None) -> list[str]:
    """What of a table's account does not hold; empty where all does.

    Args:
        head: its newest record.
        recent: its last records, oldest first; None where the log no longer tells one.
        in_files: a record of its own, and the rows of the snapshot that stands at it.
    """
    found = []
    totals = head.totals
    if totals:
        moved = totals.get("inserted", 0) - totals.get("deleted", 0) + totals.get("miscounted", 0)
        if totals[BEGAN] + moved != head.rows:
            found.append(
                f"{totals[BEGAN]} rows at version {totals[SINCE]} and {moved:+d} since are not {head.rows}"
            )
        if (events := totals.get("events", 0)) != (parts := _parts(totals)):
            found.append(f"{events} events came in, and {parts} are accounted for")
    for before, after in pairwise(recent):
        if before is None or after is None or after.kinds is None:
            continue  # one that began the table again counts from there
        if (began := account(after).before) != before.rows:
            found.append(
                f"version {before.version} ended with {before.rows} rows, the next one began with {began}"
            )
    if in_files is not None and in_files[0].rows != in_files[1]:
        said, there = in_files[0].rows, in_files[1]
        found.append(f"version {in_files[0].version} has {said} rows, its snapshot's files have {there}")
    return found


def _parts(totals: Mapping[str, int]) -> int:
    """What became of a stg table's events, added up. Rows that went without an event are none."""
    no_parts = (SINCE, BEGAN, "events", "miscounted", "truncated", *EFFECTS)
    return sum(n for name, n in totals.items() if name not in no_parts)
