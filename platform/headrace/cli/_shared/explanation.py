"""A table's freshness, mode and strategy with the reasons, and its past refreshes, for a person."""

from __future__ import annotations

from typing import Any

from headrace.cli._shared.output import moment, print_columns


def show_explanation(found: dict[str, Any]) -> None:
    """An `Explanation`, its history too where it has one."""
    print(f"{found['table']}")
    print(f"  freshness {found['freshness']}, by {found['freshness_origin']}")
    print(f"  mode      {found['refresh_mode']}: {found['mode_reason']}")
    if found["completion"]:
        print(f"  run mode  {found['run_mode']}")
        print(f"  complete  {found['completion']}")
    print(f"  strategy  {found['strategy'] or '?'}: {found['strategy_reason']}")
    for name, reason in found["refused"].items():
        print(f"  not       {name}: {reason}")
    print(f"  reads     {', '.join(found['upstreams'])}")
    if found["flow"]:
        print(f"  flow      {', '.join(found['flow'])}")
    for line in found["notes"]:
        print(f"  note      {line}")
    for d in found["decisions"]:
        print(f"  decided   {d['at'][:19]} {d['what']} {d['was']} → {d['became']}: {d['why']}")
    if found["history"]:
        _show_history(found["history"])
    if found["accounts"]:
        _show_accounts(found["accounts"])


def _show_history(decisions: list[dict[str, Any]]) -> None:
    print()
    print_columns(
        (
            "version",
            "committed",
            "chosen",
            "path",
            "seconds",
            "expected",
            "rows in",
            "rows out",
            "upstreams",
            "shadow",
            "why",
        ),
        [
            (
                d["version"],
                moment(d["committed_at"]),
                d["chosen"],
                d["path"],
                round(d["seconds"], 2),
                ", ".join(f"{name} {seconds:.2f}" for name, seconds in d["estimates"].items()),
                d["rows_in"],
                d["rows_out"],
                ", ".join(f"{name}: {change}" for name, change in d["changes"].items()),
                ", ".join(f"{name} {seconds:.2f}" for name, seconds in d["shadow"].items()),
                d["why"],
            )
            for d in decisions
        ],
    )


def _show_accounts(accounts: list[dict[str, Any]]) -> None:
    print()
    print_columns(
        (
            "version",
            "committed",
            "mode",
            "partitions",
            "rows before",
            "inserted",
            "updated",
            "deleted",
            "rows after",
            "read",
        ),
        [
            (
                a["version"],
                moment(a["committed_at"]),
                a["mode"],
                a["partitions"],
                a["before"] + a["miscounted"],
                a["inserted"],
                a["updated"],
                a["deleted"],
                a["after"],
                _read(a),
            )
            for a in accounts
        ],
    )


def _read(account: dict[str, Any]) -> str:
    """Change rows of a derived table's upstreams, or what became of a stg table's events."""
    events = account["events"]
    numbers = {k: n for k, n in events.items() if n and k not in ("inserted", "updated", "deleted")}
    parts = [f"{name} {n}" for name, n in {**account["reads"], **numbers}.items() if not isinstance(n, dict)]
    parts += [f"quarantined by {rule} {n}" for rule, n in (numbers.get("quarantined") or {}).items()]
    return ", ".join(parts)
