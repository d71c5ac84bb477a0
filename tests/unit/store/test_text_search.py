"""Ranges of time that a full-text search reads: near ones are one, and nothing is left out."""

import itertools
from collections.abc import AsyncGenerator

from hypothesis import given
from hypothesis import strategies as st

from app.store.records import text_search

HOUR_MS = 3_600_000


async def _yield(ranges: list[tuple[int, int]]) -> AsyncGenerator[tuple[int, int]]:
    for each in ranges:
        yield each


@given(st.sets(st.integers(0, 200), max_size=60))
async def test_ranges_that_are_joined_hold_the_same_hours_and_are_few(hours: set[int]) -> None:
    ranges = [(hour * HOUR_MS, (hour + 1) * HOUR_MS) for hour in sorted(hours, reverse=True)]
    joined = [each async for each in text_search._join_near(_yield(ranges))]  # pyright: ignore[reportPrivateUsage]
    assert all(any(begin <= hour * HOUR_MS < end for begin, end in joined) for hour in hours)
    assert all(older[1] <= newer[0] for newer, older in itertools.pairwise(joined)), "the newest first, apart"
    assert {edge // HOUR_MS - at for each in joined for at, edge in enumerate(each)} <= hours, "no wider than what is in them"
    assert len(joined) <= 1 + 200 // 24 * 2
