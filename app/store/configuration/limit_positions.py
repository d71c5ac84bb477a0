"""Positions of limits, by which they are sorted. There are gaps between them, so that one that comes between others moves none of them."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from app.process.thread_steps import in_steps

_GAP = 4096
_HIGHEST = 2**31 - 1  # of Postgres's integer; the lowest is beyond its negative


def place_limits(names: Sequence[str], stored: Mapping[str, int]) -> dict[str, int]:
    """A position for each limit, in the order of `names`. As few stored positions change as possible, unless there is no gap left.

    In steps.
    """
    positions: dict[str, int] = {}
    low: int | None = None
    for new, high in _runs(names, stored):
        placed = _between(low, high, len(new))
        if placed is None:
            return {name: number * _GAP for number, name in enumerate(names)}
        positions.update(zip(new, placed, strict=True))
        low = high
    return {name: positions.get(name, stored.get(name, 0)) for name in names}


def _runs(names: Sequence[str], stored: Mapping[str, int]) -> Iterator[tuple[list[str], int | None]]:
    """The names that need a position before each one that is kept, with that; then those after the last, with None."""
    kept = _longest_ascending([(stored[name], name) for name in names if name in stored])
    run: list[str] = []
    for name in names:
        if name in kept:
            yield run, stored[name]
            run = []
        else:
            run.append(name)
    yield run, None


def _between(low: int | None, high: int | None, count: int) -> list[int] | None:
    """Positions after one and before the other; None: there are not enough."""
    if low is None:
        low = -_GAP if high is None else high - _GAP * (count + 1)
    if high is None:
        high = low + _GAP * (count + 1)
    if high - low <= count or low < -_HIGHEST or high > _HIGHEST:
        return None
    return [low + (high - low) * number // (count + 1) for number in range(1, count + 1)]


def _longest_ascending(pairs: Sequence[tuple[int, str]]) -> set[str]:
    """The names of a longest subsequence whose numbers ascend."""
    ends: list[int] = []  # the lowest number in which a subsequence ends, by its length
    last: list[int] = []  # its place in `pairs`
    before: list[int | None] = []  # of each pair the place of the one before it
    for place, (number, _) in enumerate(in_steps(pairs)):
        length = bisect_left(ends, number)
        before.append(last[length - 1] if length else None)
        ends[length : length + 1] = [number]
        last[length : length + 1] = [place]
    found: set[str] = set()
    place = last[-1] if last else None
    while place is not None:
        found.add(pairs[place][1])
        place = before[place]
    return found
