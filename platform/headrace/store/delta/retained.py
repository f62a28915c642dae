"""What retention has left of a table: a small file beside its changelog and snapshot.

It is written before anything is removed, so it may claim too much to be gone and never too little.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Self

from headrace.storage.location import Location, replace_text
from headrace.storage.permit import PERMIT

FILE = "retained.json"


@dataclass(frozen=True)
class Retained:
    """
    Args:
        removed: changes up to this version may be gone from the changelog.
        whole_since: the snapshot's Delta versions from this one on have all their files.
        kept: older Delta versions of the snapshot that have them, too.
        marks: `(version, seconds since 1970)`: the table was at this version then, so these changes and older
            ones are at least as old. Ascending.
    """

    removed: int = 0
    whole_since: int = 0
    kept: tuple[int, ...] = ()
    marks: tuple[tuple[int, float], ...] = ()

    @classmethod
    def load(cls, root: Location) -> Self:
        path = root / FILE
        if not path.is_file():
            return cls()
        raw = json.loads(path.read_text())
        marks = tuple((int(v), float(t)) for v, t in raw["marks"])
        return cls(raw["removed"], raw["whole_since"], tuple(raw["kept"]), marks)

    def save(self, root: Location) -> None:
        PERMIT.check()
        replace_text(root / FILE, json.dumps(asdict(self)))

    def marked(self, version: int, now: float, *, oldest: float) -> Self:
        """With a mark of the version it is at now; of the marks before `oldest` only the newest stays."""
        marks = [m for m in self.marks if m[1] <= now]
        if not marks or marks[-1][0] != version:
            marks.append((version, now))
        old = [m for m in marks if m[1] <= oldest]
        return replace(self, marks=(*old[-1:], *(m for m in marks if m[1] > oldest)))

    def aged(self, moment: float) -> int:
        """The newest version known to be as old as `moment` (seconds since 1970), 0 where none is."""
        return max((version for version, seen in self.marks if seen <= moment), default=0)

    def whole(self, delta: int) -> bool:
        """Whether all files of this Delta version of the snapshot are there."""
        return delta >= self.whole_since or delta in self.kept
