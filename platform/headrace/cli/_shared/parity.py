"""Comparisons as `verify` and a cascade show them."""

from __future__ import annotations

from typing import Any

from headrace.cli._shared.output import print_columns


def all_equal(results: list[dict[str, Any]]) -> bool:
    """Whether every comparison came to its end and found no difference."""
    return all(r["equal"] and not r["error"] for r in results)


def show_parity(results: list[dict[str, Any]]) -> None:
    """A line per comparison, then what was repaired and which rows differ."""
    print_columns(
        ("table", "against", "", "rows", "missing", "extra", "version", "seconds"),
        [
            (
                r["table"],
                r["against"],
                "ERROR" if r["error"] else "equal" if r["equal"] else "DIFFERS",
                r["rows"],
                r["missing"],
                r["extra"],
                r["version"],
                round(r["seconds"], 1),
            )
            for r in results
        ],
    )
    for r in results:
        if bound := r.get("immutable_before"):
            print(f"\n{r['table']}: partitions before {bound} are immutable and were not compared")
        if since := r.get("since"):
            print(
                f"\n{r['table']} against {r['against']}: Kafka no longer holds all of its topic; computed "
                f"from its version {since} and what came since"
            )
        if through := r.get("complete_through"):
            print(f"\n{r['table']}: the batch has written the partitions up to {through}; it has no others")
        if (done := r.get("repaired")) is not None:
            where = f"partitions {', '.join(done['partitions'])}" if done["partitions"] else "all of it"
            print(
                f"\n{r['table']} against {r['against']}: repaired {where}: {done['inserted']:,} inserted, "
                f"{done['updated']:,} updated, {done['deleted']:,} deleted; "
                f"{'proven equal' if r['equal'] and not r['error'] else 'DIFFERS STILL'}"
            )
        if r["error"]:
            print(f"\n{r['table']} against {r['against']}: {r['error']}")
        elif not r["equal"]:
            where = f", partitions {', '.join(r['partitions'])}" if r["partitions"] else ""
            print(f"\n{r['table']} against {r['against']}: {r['missing'] + r['extra']:,} rows differ{where}")
            columns = list(dict.fromkeys(key for d in r["sample"] for key in d["row"]))
            print_columns(
                ("only in", *columns), [(d["side"], *(d["row"].get(c) for c in columns)) for d in r["sample"]]
            )
