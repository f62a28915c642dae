"""Reading a header word by word, with errors that say what was expected where."""

from __future__ import annotations

from typing import NoReturn

from sqlglot.tokens import TokenType

from headrace.errors import Location, SpecError
from headrace.spec.syntax.text import SourceText, Word


class Cursor:
    """A position among the words of one layer file."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.words = source.words()
        self.index = 0

    @property
    def word(self) -> Word | None:
        return self.words[self.index] if self.index < len(self.words) else None

    @property
    def offset(self) -> int:
        """Where the next word begins; past the last one, where it ended."""
        if self.word:
            return self.word.start
        return self.words[-1].end if self.words else 0

    def location(self) -> Location:
        return self.source.location(self.offset)

    def at(self, *keywords: str) -> bool:
        following = self.words[self.index : self.index + len(keywords)]
        return [w.upper for w in following] == list(keywords)

    def accept(self, *keywords: str) -> bool:
        if found := self.at(*keywords):
            self.index += len(keywords)
        return found

    def expect(self, *keywords: str) -> None:
        for keyword in keywords:
            if not self.accept(keyword):
                self.fail(f"`{keyword}`")

    def one_of(self, *choices: str) -> str:
        """The choice that stands here; a choice may be of several words, the longest is taken."""
        for choice in sorted(choices, key=len, reverse=True):
            if self.accept(*choice.split()):
                return choice
        self.fail("one of " + ", ".join(f"`{c}`" for c in choices))

    def name(self, what: str) -> Word:
        word = self.word
        is_name = word and (word.kind is TokenType.IDENTIFIER or word.text.isidentifier())
        if word is None or not is_name or word.kind is TokenType.STRING:
            self.fail(what)
        self.index += 1
        return word

    def string(self, what: str) -> Word:
        """A quoted string; `''` in it is one quote, which sqlglot's Spark tokens show as two strings."""
        word = self.word
        if word is None or word.kind is not TokenType.STRING:
            self.fail(f"{what} in single quotes")
        self.index += 1
        while (more := self.word) and more.kind is TokenType.STRING and more.start == word.end:
            word = Word(word.kind, word.text + more.text, f"{word.value}'{more.value}", word.start, more.end)
            self.index += 1
        return word

    def names(self, what: str) -> list[Word]:
        """`(a, b, …)`, at least one."""
        self.expect("(")
        found = [self.name(what)]
        while self.accept(","):
            found.append(self.name(what))
        if not self.accept(")"):
            self.fail("`,` or `)`")
        return found

    def parenthesized(self) -> tuple[int, int]:
        """The slice between a pair of parentheses."""
        opened = self.offset
        self.expect("(")
        start, depth = self.offset, 1
        while word := self.word:
            depth += {"(": 1, ")": -1}.get(word.upper, 0)
            self.index += 1
            if depth == 0:
                end = self.words[self.index - 2].end
                if end <= opened + 1:
                    raise self.source.error("the parentheses are empty", opened)
                return start, end
        raise self.source.error("this parenthesis is never closed", opened)

    def fail(self, expected: str) -> NoReturn:
        found = f"`{self.word.text.splitlines()[0]}`" if self.word else "the end of the file"
        raise self.error(f"syntax error: expected {expected}, found {found}")

    def error(self, message: str, *, at: Word | None = None, hint: str | None = None) -> SpecError:
        return self.source.error(message, at.start if at else self.offset, hint)
