"""The text of a layer file, its tokens, and where each stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sqlglot.dialects import Spark
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from headrace.errors import Location, SpecError

LITERALS = frozenset(
    t for t in TokenType if t.name.endswith("STRING") or t in (TokenType.IDENTIFIER, TokenType.NUMBER)
)


def advance(start: Location, text: str) -> Location:
    """Where a reader stands who began at `start` and has read `text`."""
    lines = text.count("\n")
    column = len(text) - text.rfind("\n") if lines else start.column + len(text)
    return Location(start.path, start.line + lines, column)


@dataclass(frozen=True)
class Word:
    """One token, as written. `value` is a string's content, `start:end` the slice of the file."""

    kind: TokenType
    text: str
    value: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """The keyword this may be; a quoted name or a string never is one."""
        return "" if self.kind in LITERALS else self.text.upper()


@dataclass(frozen=True)
class SourceText:
    """A layer file as read."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> SourceText:
        try:
            return cls(path, path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise SpecError("there is no such layer file", Location(path, 1)) from None
        except UnicodeDecodeError as error:
            line = path.read_bytes()[: error.start].count(b"\n") + 1
            raise SpecError("is not UTF-8", Location(path, line), "save the file as UTF-8") from None

    def location(self, offset: int) -> Location:
        return advance(Location(self.path, 1), self.text[:offset])

    def error(self, message: str, offset: int, hint: str | None = None) -> SpecError:
        return SpecError(message, self.location(offset), hint)

    def tokens(self) -> list[Token]:
        try:
            return Spark().tokenize(self.text)
        except TokenError as error:
            raise self._unterminated(error) from None

    def words(self) -> list[Word]:
        """The tokens, with sqlglot's two-word keywords (`PRIMARY KEY`) taken apart again."""
        words = []
        for token in self.tokens():
            piece = self.text[token.start : token.end + 1]
            if token.token_type in LITERALS:
                words.append(Word(token.token_type, piece, token.text, token.start, token.end + 1))
                continue
            for match in re.finditer(r"\S+", piece):
                start, end = token.start + match.start(), token.start + match.end()
                words.append(Word(token.token_type, match[0], match[0], start, end))
        return words

    def _unterminated(self, error: TokenError) -> SpecError:
        # sqlglot says where a string or a quoted name began, and nothing about a comment.
        found = re.search(r"Missing (\S+) from \d+:(\d+)$", str(error.__cause__))
        if found:
            return self.error(f"syntax error: {found[1]} is never closed", int(found[2]))
        return self.error(
            "syntax error: a comment is never closed", max(self.text.rfind("/*"), 0), "close it with */"
        )
