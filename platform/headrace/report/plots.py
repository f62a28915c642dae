"""Plots as SVG text. Colours are the page's CSS classes, so they follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

NODE_WIDTH, NODE_HEIGHT, GAP_X, GAP_Y = 172, 30, 62, 12
ROW, LABEL, PLOT = 24, 190, 430

TICKS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3_600, 86_400, 864_000, 8_640_000)
"""Of the freshness axis, in seconds."""


@dataclass(frozen=True)
class Node:
    """One table or captured table of the graph; `state` is a CSS class."""

    name: str
    state: str
    title: str = ""


def graph(nodes: Sequence[Node], reads: Mapping[str, Iterable[str]]) -> str:
    """What reads what, from left to right; each node one column after the last that it reads.

    Args:
        nodes: upstreams before what reads them.
        reads: upstreams by node.
    """
    depth: dict[str, int] = {}
    columns: dict[int, list[Node]] = {}
    for node in nodes:
        depth[node.name] = 1 + max((depth[u] for u in reads.get(node.name, ()) if u in depth), default=-1)
        columns.setdefault(depth[node.name], []).append(node)
    tallest = max(map(len, columns.values()), default=0)
    places = {}
    for column, members in columns.items():
        top = (tallest - len(members)) * (NODE_HEIGHT + GAP_Y) / 2
        for row, node in enumerate(members):
            places[node.name] = (column * (NODE_WIDTH + GAP_X), top + row * (NODE_HEIGHT + GAP_Y))
    parts = []
    for name, upstreams in reads.items():
        for upstream in upstreams:
            if name in places and upstream in places:
                parts.append(_edge(places[upstream], places[name]))
    for node in nodes:
        x, y = places[node.name]
        parts.append(
            f'<g class="node {node.state}"><title>{escape(node.title or node.name)}</title>'
            f'<rect x="{x}" y="{y}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}" rx="6"/>'
            f'<text x="{x + 10}" y="{y + NODE_HEIGHT / 2 + 4}">{escape(_short(node.name))}</text></g>'
        )
    width = max(len(columns) * (NODE_WIDTH + GAP_X) - GAP_X, 1)
    return _svg(width, max(tallest * (NODE_HEIGHT + GAP_Y) - GAP_Y, 1), parts, "Which table reads which")


@dataclass(frozen=True)
class Span:
    """One line of the freshness plot, in seconds; None where nothing was measured."""

    name: str
    declared: float | None
    p50: float | None
    p90: float | None

    @property
    def late(self) -> bool:
        return self.declared is not None and self.p90 is not None and self.p90 > self.declared


def freshness(spans: Sequence[Span]) -> str:
    """Declared against measured freshness on a logarithmic scale: a bar from the median to the ninth decile,
    and a mark at what is declared."""
    values = [v for s in spans for v in (s.declared, s.p50, s.p90) if v]
    low = max((t for t in TICKS if t <= min(values, default=0.1)), default=TICKS[0])
    high = min((t for t in TICKS if t > max(values, default=10)), default=TICKS[-1])
    scale = PLOT / math.log10(high / low)

    def at(seconds: float) -> float:
        return LABEL + scale * math.log10(max(seconds, low) / low)

    height, parts = ROW * len(spans), []
    for tick in (t for t in TICKS if low <= t <= high):
        x = at(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>')
        parts.append(f'<text class="axis" x="{x:.1f}" y="{height + 16}">{_seconds(tick)}</text>')
    for row, span in enumerate(spans):
        y = ROW * row + ROW / 2
        parts.append(f'<text x="0" y="{y + 4}">{escape(_short(span.name))}</text>')
        if span.p50 is not None and span.p90 is not None:
            x1, x2 = at(span.p50), max(at(span.p90), at(span.p50) + 3)
            kind = "bad" if span.late else "good"
            told = f"half of the commits within {_seconds(span.p50)}, nine in ten within {_seconds(span.p90)}"
            parts.append(
                f'<rect class="bar {kind}" x="{x1:.1f}" y="{y - 5}" width="{x2 - x1:.1f}" height="10" '
                f'rx="3"><title>{escape(span.name)}: {told}</title></rect>'
            )
        if span.declared is not None:
            x = at(span.declared)
            parts.append(
                f'<line class="declared" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 9}" y2="{y + 9}">'
                f"<title>{escape(span.name)} declares {_seconds(span.declared)}</title></line>"
            )
    return _svg(LABEL + PLOT + 30, height + 24, parts, "Declared and measured freshness")


def _edge(begin: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1 = begin[0] + NODE_WIDTH, begin[1] + NODE_HEIGHT / 2
    x2, y2 = end[0], end[1] + NODE_HEIGHT / 2
    middle = (x1 + x2) / 2
    return f'<path class="edge" d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"/>'


def _svg(width: float, height: float, parts: Iterable[str], title: str) -> str:
    body = "\n".join(parts)
    return (
        f'<svg viewBox="-4 -4 {width + 8:.0f} {height + 8:.0f}" style="max-width:{width + 8:.0f}px" '
        f'role="img" aria-label="{escape(title)}">\n{body}\n</svg>'
    )


def _short(name: str, most: int = 24) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _seconds(value: float) -> str:
    """Seconds as a short text."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"
