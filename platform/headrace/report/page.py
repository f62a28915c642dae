"""The page: one HTML text that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from statistics import median

from headrace.report.gather import Gathered
from headrace.report.plots import Node, Span, freshness, graph
from headrace.results import TableStatus

MOST_EVENTS = 40

_STATES = {"RUNNING": "good", "INITIALIZING": "warn", "SUSPENDED": "warn"}


def page(gathered: Gathered) -> str:
    """The whole page as HTML."""
    css = files("headrace.report").joinpath("page.css").read_text(encoding="utf-8")
    name = escape(gathered.project)
    body = "\n".join(
        [
            f'<h1>{name}</h1><p class="dim">headrace, {gathered.at:%Y-%m-%d %H:%M:%S} UTC</p>',
            _verdict(gathered),
            _section("Tables", graph(*_graph(gathered))),
            _section("Freshness", freshness(_spans(gathered)), _FRESHNESS),
            _section("State", _states(gathered)),
            _section("Proof", _proof(gathered), _PROOF),
            _section("Cost", _cost(gathered), _COST),
            _section("Backfills and rewinds", _happened(gathered)),
        ]
    )
    head = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}: headrace</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{css}</style>'
    )
    return f"{head}<body>\n{body}\n</body></html>\n"


_FRESHNESS = (
    "From the commit at the source to the table's own: a bar from the median to what nine in ten commits "
    "kept of late, and a mark at what is declared. Seconds on a logarithmic scale."
)
_PROOF = "What each check found last, whoever asked for it."
_COST = "Past refreshes of derived tables, as their commits recorded them."


def _verdict(gathered: Gathered) -> str:
    problems = gathered.problems
    if not problems:
        return f'<div class="verdict"><b class="good">All {len(gathered.tables)} tables are well.</b></div>'
    lines = "".join(f"<li>{escape(line)}</li>" for line in problems)
    return f'<div class="verdict bad"><b class="bad">{len(problems)} to look at</b><ul>{lines}</ul></div>'


def _section(title: str, content: str, told: str = "") -> str:
    text = f'<p class="dim">{told}</p>' if told else ""
    return f'<h2>{title}</h2>{text}<div class="scroll">{content}</div>'


def _graph(gathered: Gathered) -> tuple[list[Node], dict[str, list[str]]]:
    reads = {t.table: gathered.explanations[t.table].upstreams for t in gathered.tables}
    sources = dict.fromkeys(u for upstreams in reads.values() for u in upstreams if u not in reads)
    nodes = [Node(source, "source", f"{source}, captured") for source in sources]
    left = {t.table: t for t in gathered.tables}
    placed = set(sources)
    while left:  # upstreams first
        ready = [name for name in left if placed.issuperset(set(reads[name]) & (reads.keys() | placed))]
        for name in ready or list(left):
            table = left.pop(name)
            nodes.append(Node(name, _kind(table), f"{name}: {table.mode}, {table.state}"))
            placed.add(name)
    return nodes, reads


def _kind(table: TableStatus) -> str:
    if table.alarms or table.dead_letters or table.late:
        return "bad"
    return _STATES.get(table.state, "bad")


def _spans(gathered: Gathered) -> list[Span]:
    return [Span(t.table, t.freshness_to_keep, t.measured_p50, t.measured_p90) for t in gathered.tables]


def _states(gathered: Gathered) -> str:
    rows = []
    for t in gathered.tables:
        state = f'<span class="{_kind(t)}">{escape(t.state)}</span>'
        numbers = [t.rows, t.version, t.lag, t.dead_letters, t.quarantined]
        shown = [escape(t.table), escape(t.mode), state, escape(t.strategy), *map(_number, numbers)]
        rows.append([*shown, escape(t.complete_through or "")])
    heads = (
        "table",
        "mode",
        "state",
        "strategy",
        "rows",
        "version",
        "lag",
        "dead letters",
        "quarantined",
        "complete to",
    )
    return _table(heads, rows, numbers=range(4, 9))


def _proof(gathered: Gathered) -> str:
    if not gathered.checks:
        return '<p class="dim">Nobody has asked yet: <code>headrace verify</code></p>'
    rows = [
        [
            escape(c.table),
            escape(c.check),
            '<span class="good">passes</span>' if c.passed else '<span class="bad">FAILS</span>',
            f"{c.evaluated_at:%Y-%m-%d %H:%M:%S}",
            escape(c.labels or "all of it"),
            escape(c.found),
        ]
        for c in gathered.checks
    ]
    return _table(("table", "check", "", "when (UTC)", "about", "found"), rows)


def _cost(gathered: Gathered) -> str:
    rows = []
    for name, explanation in gathered.explanations.items():
        if not (past := explanation.history):
            continue
        seconds = sorted(d.seconds for d in past)
        changed = sum(d.rows_in for d in past)
        rows.append(
            [
                escape(name),
                escape(", ".join(dict.fromkeys(d.chosen for d in past))),
                _number(len(past)),
                f"{median(seconds) * 1000:,.0f} ms",
                f"{seconds[int(0.9 * (len(seconds) - 1))] * 1000:,.0f} ms",
                f"{sum(seconds):,.1f} s",
                _number(changed),
                f"{sum(seconds) / changed * 1000:,.2f} ms" if changed else "–",
            ]
        )
    heads = ("table", "strategies", "refreshes", "median", "p90", "in all", "changed rows read", "for each")
    return _table(heads, rows, numbers=range(2, 8)) if rows else '<p class="dim">None yet.</p>'


def _happened(gathered: Gathered) -> str:
    rows = [
        [
            f"{h.account.committed_at:%Y-%m-%d %H:%M:%S}" if h.account.committed_at else "–",
            escape(h.table),
            escape(h.account.mode),
            *map(
                _number,
                (
                    h.account.partitions,
                    h.account.inserted,
                    h.account.updated,
                    h.account.deleted,
                    h.account.version,
                ),
            ),
        ]
        for h in gathered.happened[:MOST_EVENTS]
    ]
    heads = ("when (UTC)", "table", "what", "partitions", "inserted", "updated", "deleted", "version")
    return (
        _table(heads, rows, numbers=range(3, 8)) if rows else '<p class="dim">None in the newest commits.</p>'
    )


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = ()) -> str:
    """Cells are HTML already."""
    right = set(numbers)
    head = "".join(f'<th class="n">{h}</th>' if i in right else f"<th>{h}</th>" for i, h in enumerate(heads))
    lines = []
    for row in rows:
        cells = (f'<td class="n">{c}</td>' if i in right else f"<td>{c}</td>" for i, c in enumerate(row))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"
