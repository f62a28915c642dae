"""A new holder of the lease shuts out the one before, which may wake with a commit in hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError

from headrace.storage.location import Location, delta_table, is_delta_table, names
from headrace.storage.permit import PERMIT
from headrace.store.delta.files import NO_HOOKS, maintenance
from headrace.store.record.commits import latest

EPOCH = "headrace.epoch"
"""Table property: the epoch of the lease's holder that has taken the table over last."""

_RECORDED = ("changelog", "snapshot")
"""Tables whose commits say what they are: the newest record is carried along, as no row changes."""

AT_ONCE = 8
"""Tables: a commit to each is mostly waited for."""

ATTEMPTS = 10
"""Times that the holder before may come first, with what it has in hand: once for each of its threads."""


def fence(folders: Iterable[Location], epoch: int) -> int:
    """Commit to each Delta table in these folders that it has another writer.

    A commit that was begun before fails: of one version there is one, and Delta lets none go on after another
    that has changed the table's properties. None is begun after, by a process without the lease: it asks
    `storage.permit` first. (The fencing of Chubby's sequencers, Burrows 2006, where what is written to checks
    no token, but never takes two of one number.)

    Returns:
        How many tables there are.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tables = itertools.chain.from_iterable(map(_tables, folders))
        return sum(pool.map(lambda place: _fence(place, epoch), tables))


def _tables(folder: Location) -> Iterator[Location]:
    if is_delta_table(folder):
        yield folder
        return
    for name in names(folder):
        place = folder / name
        if "." not in name and place.is_dir():
            yield from _tables(place)


def _fence(place: Location, epoch: int) -> int:
    for left in reversed(range(ATTEMPTS)):
        table, found = delta_table(place), latest(place) if place.name in _RECORDED else None
        properties = maintenance(found[1]) if found is not None else CommitProperties()
        properties.max_commit_retries = 0
        PERMIT.check()
        try:
            table.alter.set_table_properties(
                {EPOCH: str(epoch)},
                raise_if_not_exists=False,
                commit_properties=properties,
                post_commithook_properties=NO_HOOKS,
            )
        except CommitFailedError:
            if not left:
                raise
        else:
            break
    return 1
