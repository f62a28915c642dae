"""A file of this machine, or of a shared folder, that is replaced only as what it was read as."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KEPT = 8
"""Of the newest contents: who lists the folder while it changes sees some of them for certain."""


@dataclass(frozen=True)
class MarkedFile:
    """Each content is a file of the next number, linked to where there is none of that number yet.

    There is no lock: a process that stands still while it has one would keep everybody from it.

    Args:
        folder: of its contents; nothing else lies there.
    """

    folder: Path

    def __str__(self) -> str:
        return str(self.folder)

    @property
    def parent(self) -> Path:
        return self.folder.parent

    def read_marked(self) -> tuple[str, str] | None:
        """Its text and the mark of this content; None where there is none."""
        while numbers := self._numbers():
            newest = numbers[-1]
            with suppress(FileNotFoundError):  # others have come since, and this one is gone
                return (self.folder / str(newest)).read_text(encoding="utf-8"), str(newest)
        return None

    def write_if(self, text: str, mark: str | None) -> str | None:
        """Write where its content still has this mark (None: where there is none).

        Returns:
            The mark of what was written; None where somebody else has written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        number = int(mark) + 1 if mark is not None else 1
        draft, place = self.folder / f".{uuid.uuid4().hex}", self.folder / str(number)
        try:
            draft.write_text(text, encoding="utf-8")
            os.link(draft, place)
        except FileExistsError:
            return None
        finally:
            draft.unlink(missing_ok=True)
        numbers = self._numbers()
        if numbers[-1] != number:  # its number was given and taken back long ago
            place.unlink()
            return None
        for old in numbers[:-KEPT]:
            (self.folder / str(old)).unlink(missing_ok=True)
        return str(number)

    def _numbers(self) -> list[int]:
        with suppress(FileNotFoundError):
            return sorted(int(name) for name in os.listdir(self.folder) if name.isdigit())  # noqa: PTH208
        return []
