"""A statement's tokens, read from left to right, with errors that say where."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, NoReturn

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from headrace.errors import TerminalError, did_you_mean

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Tokenizer(Spark.Tokenizer):
    COMMANDS: ClassVar[set[TokenType]] = (
        set()
    )  # sqlglot would swallow the rest of SHOW … and EXPLAIN … as one string


class StatementError(TerminalError):
    """A statement that cannot be accepted, as `line:column: what is wrong`; both count from 1."""

    def __init__(self, message: str, line: int, column: int, hint: str = "") -> None:
        super().__init__(f"{line}:{column}: {message}" + (f"\n  hint: {hint}" if hint else ""))
        self.reason = message
        self.line = line
        self.column = column
        self.hint = hint


def error_at(sql: str, offset: int, message: str, hint: str = "") -> StatementError:
    """An error about the character at `offset` of `sql`."""
    before = sql[:offset]
    return StatementError(message, before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1, hint)


def tokenize(sql: str) -> list[Token]:
    """The words of a text. Raises StatementError where a quoted text or a comment has no end."""
    try:
        return _Tokenizer(dialect=Spark()).tokenize(sql)
    except TokenError:
        # Its message quotes text and a position that count from somewhere else.
        raise error_at(sql, 0, "the statement cannot be read", "a quote or a comment is not closed") from None


def split(text: str) -> list[tuple[int, str]]:
    """The statements that `;` separates, outside of quotes and comments, each with the line of its first
    word, from 1. Raises as `tokenize` does."""
    tokens = tokenize(text)
    ends = [t.start for t in tokens if t.token_type is TokenType.SEMICOLON]
    found, begin = [], 0
    for end in [*ends, len(text)]:
        if within := [t.start for t in tokens if begin <= t.start < end]:
            found.append((text.count("\n", 0, within[0]) + 1, text[begin:end].strip()))
        begin = end + 1
    return found


class Cursor:
    """The tokens of one statement; a trailing `;` is dropped, anything after it refused."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        tokens = tokenize(sql)
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        for token in tokens:
            if token.token_type is TokenType.SEMICOLON:
                raise error_at(sql, token.start, "more than one statement", "submit them one by one")
        if not tokens:
            raise error_at(sql, 0, "the statement is empty")
        self.tokens = tokens
        self._at = 0

    @property
    def text(self) -> str:
        """The statement with blanks for its comments and for what surrounds it.

        Spark and sqlglot end some comments at different places (`-- … \\` continues on Spark's next line),
        so code that one of them skips must not reach the other.
        """
        text, at = "", 0
        for token in self.tokens:
            text += re.sub(r"\S", " ", self.sql[at : token.start]) + self._source(token)
            at = token.end + 1
        return text

    def peek(self) -> Token | None:
        return self.tokens[self._at] if self._at < len(self.tokens) else None

    def fail(self, message: str, hint: str = "", *, token: Token | None = None) -> NoReturn:
        """Raise an error about `token`, by default the next one."""
        token = token or self.peek()
        offset = token.start if token else self.tokens[-1].end + 1
        raise error_at(self.sql, offset, message, hint)

    def expected(self, what: str, hint: str = "") -> NoReturn:
        """Raise `expected …, found …` about the next token."""
        token = self.peek()
        found = f"`{self._source(token)}`" if token else "the end of the statement"
        self.fail(f"expected {what}, found {found}", hint)

    def accept(self, word: str) -> bool:
        """Step over `word` if it comes next."""
        token = self.peek()
        if token is None or self._source(token).upper() != word:
            return False
        self._at += 1
        return True

    def keyword(self, words: Iterable[str]) -> str:
        """Step over one of `words`, which must come next."""
        known = list(words)
        for word in known:
            if self.accept(word):
                return word
        token = self.peek()
        is_word = token is not None and _WORD.fullmatch(self._source(token))
        suggestion = did_you_mean(self._source(token).upper(), known) if token and is_word else ""
        what = " or ".join(f"`{word}`" for word in known)
        self.expected(what, suggestion if suggestion.startswith("did") else "")

    def keywords(self, *words: str) -> None:
        """Step over these words, which must follow one another."""
        for word in words:
            self.keyword((word,))

    def name(self, what: str) -> tuple[str, Token]:
        """Step over an identifier; `what` names it in the error."""
        token = self.peek()
        if token is not None:
            source = self._source(token)
            if token.token_type is TokenType.IDENTIFIER or _WORD.fullmatch(source):
                self._at += 1
                return token.text.lower(), token
        self.expected(what)

    def string(self, what: str) -> str:
        """Step over a quoted text; `''` in it is one quote, which the tokens show as two texts."""
        token = self.peek()
        if token is not None and token.token_type is TokenType.STRING:
            self._at += 1
            text, end = token.text, token.end
            while (more := self.peek()) and more.token_type is TokenType.STRING and more.start == end + 1:
                self._at += 1
                text, end = f"{text}'{more.text}", more.end
            return text
        quoted = token is not None and token.token_type is TokenType.NUMBER
        self.expected(what, f"write it in quotes: '{self._source(token)}'" if token and quoted else "")

    def integer(self, what: str) -> int:
        """Step over a whole number."""
        token = self.peek()
        if token is not None and token.token_type is TokenType.NUMBER and token.text.isdecimal():
            self._at += 1
            return int(token.text)
        self.expected(what)

    def rest(self, what: str) -> str:
        """Step over all that is left, which must be something; as it was written, without a last `;`."""
        token = self.peek()
        if token is None:
            self.expected(what)
        self._at = len(self.tokens)
        return self.sql[token.start : self.tokens[-1].end + 1]

    def end(self) -> None:
        """Refuse anything that is left."""
        if self.peek() is not None:
            self.expected("the end of the statement")

    def _source(self, token: Token) -> str:
        return self.sql[token.start : token.end + 1]
