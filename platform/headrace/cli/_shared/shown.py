"""The result of each statement for a person, as the command of its own shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.cli._shared.constraints import show_constraints
from headrace.cli._shared.erased import show_erased
from headrace.cli._shared.explanation import show_explanation
from headrace.cli._shared.output import moment, note, print_columns, print_result
from headrace.cli._shared.parity import all_equal, show_parity
from headrace.cli._shared.rewound import show_rewind
from headrace.cli._shared.tables import show_applied, show_cascade, show_refresh, show_refreshed
from headrace.durations import duration

if TYPE_CHECKING:
    from headrace.results import Statement


def show(statement: Statement) -> None:
    """Print what a statement without rows has answered."""
    SHOWN.get(statement.kind, print_result)(statement.result)


def well(statement: Statement) -> bool:
    """False where a comparison has found a difference, a constraint does not hold, or a letter stays dead."""
    result = statement.result
    match statement.kind:
        case "Verify":
            return all_equal(result)
        case "Check":
            return all(r["passed"] for r in result)
        case "Refresh":
            return all(all_equal(t["proof"]) for t in result.get("tables", ()))
        case "Resync":
            return result["found"] is None or bool(result["found"]["equal"])
        case "ReplayDeadLetters":
            return not result["refused"]
    return True


def _refresh(result: dict[str, Any]) -> None:
    if "tables" in result:
        show_cascade(result)
    elif result["skipped"]:
        note(f"{result['table']}: {result['skipped']}")
    else:
        show_refresh(result)


def _resync(result: dict[str, Any]) -> None:
    if result["dry_run"]:
        show_parity([result["found"]])
        note("nothing was changed: leave out DRY RUN")
    else:
        show_refreshed([result])


def _description(found: dict[str, Any]) -> None:
    """Columns, then what else there is to say of the table in words."""
    print(found["table"] + (f": {found['comment']}" if found.get("comment") else ""))
    print_columns(("column", "type"), [(c["name"], c["type"]) for c in found.pop("columns")])
    query = found.pop("query", None)
    said = {
        name: value for name, value in found.items() if value not in (None, "", [], {}) and name != "table"
    }
    print()
    print_columns(("", ""), [(name.replace("_", " "), value) for name, value in said.items()])
    if query:
        print(f"\n{query}")


def _checks(found: list[dict[str, Any]]) -> None:
    from headrace.results import CheckEvaluation

    print_columns(
        ("table", "check", "", "evaluated", "labels", "found"),
        [
            (
                c["table"],
                c["check"],
                "passes" if c["passed"] else "FAILS",
                moment(c["evaluated_at"]),
                c["labels"],
                CheckEvaluation.model_validate(c).found,
            )
            for c in found
        ],
    )


def _workflows(workflows: list[dict[str, Any]]) -> None:
    print_columns(
        ("table", "mode", "freshness", "scheduler", "state", "due in", "took"),
        [
            (
                w["table"],
                w["mode"],
                duration(w["freshness"]),
                w["scheduler"],
                w["state"],
                duration(w["due_in"]),
                duration(w["took"]),
            )
            for w in workflows
        ],
    )


def show_costs(found: list[dict[str, Any]]) -> None:
    """What work for tables has taken, and all of it together."""

    def line(c: dict[str, Any]) -> tuple[Any, ...]:
        per_thousand = f"{1000 * c['core_seconds'] / c['changes']:.2f}" if c["changes"] else None
        cores, seconds = f"{c['core_seconds']:.1f}", f"{c['seconds']:.1f}"
        return (
            c["table"] or "(all of a flow)",
            c["work"],
            c["runs"],
            c["changes"],
            seconds,
            cores,
            per_thousand,
        )

    columns = ("table", "work", "runs", "changes", "seconds", "core-seconds", "for 1,000 changes")
    total = f"{sum(c['core_seconds'] for c in found):.1f}"
    print_columns(columns, [*map(line, found), ("together", None, None, None, None, total, None)])


def _altered(result: dict[str, Any]) -> None:
    why = f": {result['mode_reason']}" if result["mode_reason"] else ""
    note(f"{result['table']}: freshness {result['freshness']}, mode {result['mode']}{why}")
    for table, mode in result["moved"].items():
        note(f"{table}: mode {mode} from now on")


def _state(result: dict[str, Any]) -> None:
    note(f"{result['table']}: {result['desired']} from now on")


def _immutable(result: dict[str, Any]) -> None:
    bound = (
        f"partitions before {result['before']} stay as they are" if result["before"] else "no bound any more"
    )
    note(f"{result['table']}: {bound}; was {result['was'] or 'without one'}")
    if result["refreshed"]:
        show_refresh(result["refreshed"])


def _loaded(result: dict[str, Any]) -> None:
    if result["loaded"]:
        note(f"{result['source']}: {result['rows']:,} rows in {duration(result['seconds'])}")
    else:
        note(f"{result['source']}: its connector reads it: {result['reason']}")


def show_replayed(result: dict[str, Any]) -> None:
    """What became of dead letters that were tried again."""
    note(
        f"{result['table']}: {result['replayed']} replayed, {len(result['refused'])} still cannot be applied"
    )
    if result["refused"]:
        rows = [(r["partition"], r["offset"], r["reason"]) for r in result["refused"]]
        print_columns(("partition", "offset", "reason"), rows)


SHOWN: Mapping[str, Callable[[Any], None]] = {
    "Alter": _altered,
    "AlterQuery": show_applied,
    "Apply": show_applied,
    "Check": show_constraints,
    "Create": show_applied,
    "Describe": _description,
    "Drop": show_applied,
    "DropDeadLetters": lambda done: note(f"{done['table']}: {done['dropped']} dropped"),
    "DropReader": lambda done: note(f"{done['table']}: reader {done['reader']} is forgotten"),
    "Erase": show_erased,
    "Explain": show_explanation,
    "LoadSource": _loaded,
    "Refresh": _refresh,
    "RefreshNew": _refresh,
    "ReplayDeadLetters": show_replayed,
    "Resume": _state,
    "Resync": _resync,
    "Rewind": show_rewind,
    "Rollback": show_applied,
    "SetImmutable": _immutable,
    "ShowChecks": _checks,
    "ShowWorkflows": _workflows,
    "ShowCosts": show_costs,
    "Suspend": _state,
    "Verify": show_parity,
}
"""By `Statement.kind`. What is missing here is a list of rows, or names and values."""
