"""Places of those who have records read as messages."""

import asyncio

import pytest

from app.api.admin.records.reading_places import ReadingPlaces
from providers.canonical.errors import Unavailable


async def test_so_many_read_at_once_and_the_next_one_begins_when_one_ends():
    places, reading, begun = ReadingPlaces(2, 60), asyncio.Event(), list[int]()

    async def read(number: int) -> None:
        async with places.place():
            begun.append(number)
            await reading.wait()

    readers = [asyncio.create_task(read(number)) for number in range(3)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert begun == [0, 1]
    reading.set()
    await asyncio.gather(*readers)
    assert begun == [0, 1, 2]


async def test_whoever_waits_too_long_gets_a_503():
    places = ReadingPlaces(1, 0.01)
    async with places.place():
        with pytest.raises(Unavailable) as refused:
            async with places.place():
                pass
    assert refused.value.retry_after_s
    async with places.place():
        pass
