"""The top SELECT list as slices of the query's own text.

What Spark runs is never generated from a syntax tree: text is cut by tokens, and each cut is parsed again and
compared with the tree, so a slice that is not what it seems is found out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from headrace.planner.sql.clauses import Unsupported
from headrace.spec.model import TableSpec
from headrace.spec.sql.query import query_tokens

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_EXACT = (TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER)
ADDITIVE = ("sum", "count", "count_if")
"""Functions whose value over two disjoint sets of rows follows from the values over each."""


@dataclass(frozen=True)
class Piece:
    """Consecutive tokens of `query`."""

    query: str
    tokens: tuple[Token, ...]

    @property
    def text(self) -> str:
        return self.query[self.tokens[0].start : self.tokens[-1].end + 1] if self.tokens else ""

    @property
    def words(self) -> tuple[str, ...]:
        """The tokens as they compare: only quoted text keeps its case."""
        return tuple(t.text if t.token_type in _EXACT else t.text.lower() for t in self.tokens)

    def part(self, first: int, last: int) -> Piece:
        """Tokens `first` to `last` (exclusive)."""
        return Piece(self.query, self.tokens[first:last])


@dataclass(frozen=True)
class Item:
    """One item of a SELECT list: its value, as written and as parsed, without the alias. `end` is the offset
    at which the item with its alias ends."""

    value: Piece
    node: exp.Expr
    end: int


@dataclass(frozen=True)
class Call:
    """A call of one of `ADDITIVE` within a piece: tokens `first` to `last` (exclusive)."""

    first: int
    last: int
    whole: Piece
    argument: Piece
    filter: Piece | None


def written(node: exp.Expr) -> str:
    return node.sql(dialect="spark", comments=False)


def parsed(text: str) -> exp.Expr:
    """The one expression that `text` is. Raises Unsupported."""
    try:
        select = sqlglot.parse_one(f"SELECT {text}", read="spark")
    except SqlglotError:
        raise Unsupported(f"`{text}` cannot be read alone") from None
    used = {part for part, value in select.args.items() if value}
    if not isinstance(select, exp.Select) or used != {"expressions"} or len(select.expressions) != 1:
        raise Unsupported(f"`{text}` cannot be read alone")
    return select.expressions[0]


def items(spec: TableSpec) -> tuple[Item, ...]:
    """The items of the top SELECT list, in order. Raises Unsupported."""
    select = spec.query_ast
    assert isinstance(select, exp.Select)
    pieces = list(_pieces(Piece(spec.query, query_tokens(spec.query))))
    if len(pieces) != len(select.expressions):
        raise Unsupported("the SELECT list cannot be taken apart")
    return tuple(_item(piece, node) for piece, node in zip(pieces, select.expressions, strict=True))


def _pieces(query: Piece) -> Iterator[Piece]:
    depth, begin = 0, None
    tokens = query.tokens
    for i, token in enumerate(tokens):
        if token.token_type in _OPENING:
            depth += 1
        elif token.token_type in _CLOSING:
            depth -= 1
        elif depth:
            continue
        elif token.token_type is TokenType.SELECT and begin is None:
            begin = i + 1
        elif begin is not None and token.token_type in (TokenType.COMMA, TokenType.FROM):
            if token.token_type is TokenType.FROM and tokens[i - 1].token_type is TokenType.DISTINCT:
                continue  # IS DISTINCT FROM
            yield query.part(begin, i)
            if token.token_type is TokenType.FROM:
                return
            begin = i + 1


def _item(piece: Piece, node: exp.Expr) -> Item:
    end = piece.tokens[-1].end + 1 if piece.tokens else 0
    if isinstance(node, exp.Alias):
        named = len(piece.tokens) - 1
        has_as = named > 0 and piece.tokens[named - 1].token_type is TokenType.ALIAS
        piece, node = piece.part(0, named - 1 if has_as else named), node.this
    if any(t.token_type is TokenType.PARAMETER for t in piece.tokens):
        raise Unsupported(f"`{piece.text}` depends on the range of the run")
    if not piece.tokens or written(parsed(piece.text)) != written(node):
        raise Unsupported(f"`{piece.text}` cannot be taken out of the SELECT list")
    return Item(piece, node, end)


def calls(piece: Piece) -> Iterator[Call]:
    """The calls of additive functions in `piece`, each with its FILTER."""
    i = 0
    tokens = piece.tokens
    while i < len(tokens):
        if tokens[i].text.lower() not in ADDITIVE or not _opens(tokens, i + 1):
            i += 1
            continue
        end = closing(tokens, i + 1) + 1
        argument, condition = piece.part(i + 2, end - 1), None
        if end < len(tokens) and tokens[end].token_type is TokenType.FILTER and _opens(tokens, end + 1):
            last = closing(tokens, end + 1) + 1
            condition, end = piece.part(end, last), last
        yield Call(i, end, piece.part(i, end), argument, condition)
        i = end


def columns(piece: Piece) -> Iterator[tuple[int, int]]:
    """Spans of names with their qualifiers, that are not called."""
    tokens, i = piece.tokens, 0
    while i < len(tokens):
        if tokens[i].token_type not in _NAMES:
            i += 1
            continue
        end = i + 1
        while end + 1 < len(tokens) and tokens[end].token_type is TokenType.DOT:
            end += 2
        if not _opens(tokens, end):
            yield i, end
        i = end


def replaced(piece: Piece, edits: Sequence[tuple[int, int, str]]) -> str:
    """The piece's text with spans of tokens replaced; of two that overlap the first named holds."""
    kept: list[tuple[int, int, str]] = []
    for first, last, text in edits:
        if all(last <= f or first >= e for f, e, _ in kept):
            kept.append((first, last, text))
    text, offset = piece.text, piece.tokens[0].start
    for first, last, replacement in sorted(kept, reverse=True):
        start, end = piece.tokens[first].start - offset, piece.tokens[last - 1].end + 1 - offset
        text = text[:start] + replacement + text[end:]
    return text


def _opens(tokens: Sequence[Token], i: int) -> bool:
    return i < len(tokens) and tokens[i].token_type is TokenType.L_PAREN


def closing(tokens: Sequence[Token], opening: int) -> int:
    """Index of the bracket that closes the one at `opening`."""
    depth = 0
    for i in range(opening, len(tokens)):
        depth += (tokens[i].token_type in _OPENING) - (tokens[i].token_type in _CLOSING)
        if not depth:
            return i
    raise Unsupported("unbalanced parentheses")
