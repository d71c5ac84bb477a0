"""A replay's spending stays within its cap, whatever is reserved and settled, and in whatever order."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.gateway.replay.spending import CapReached, Spending

bounded = settings(max_examples=60, deadline=None)
# What a request reserves, what it costs of that in percent, and after how many turns of the loop.
requests = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(0, 5)), max_size=20)


@bounded
@given(requests, st.integers(0, 300), st.integers(0, 200))
def test_the_cap_holds_and_everything_that_fits_is_made(requests: list[tuple[int, int, int]], cap: int, before: int):
    async def run() -> None:
        spending, refused, made = Spending(cap, before), list[int](), list[int]()

        async def make(reserved: int, percent: int, turns: int) -> None:
            try:
                await spending.reserve(reserved)
            except CapReached:
                assert spending.spent_microusd + reserved > cap and spending.reserved_microusd == 0
                refused.append(reserved)
                return
            assert spending.spent_microusd + spending.reserved_microusd <= cap
            for _ in range(turns):
                await asyncio.sleep(0)
            made.append(reserved * percent // 100)
            await spending.settle(reserved, made[-1])

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for each in requests:
                group.create_task(make(*each))
        assert len(refused) + len(made) == len(requests), "none waits for ever"
        assert (spending.reserved_microusd, spending.spent_microusd) == (0, before + sum(made))
        assert spending.spent_microusd <= max(cap, before)
        assert all(spending.spent_microusd + each > cap for each in refused)

    asyncio.run(run())


async def test_a_request_waits_for_what_others_may_give_back():
    spending = Spending(100, 0)
    await spending.reserve(80)
    waiting = asyncio.create_task(spending.reserve(40))
    await asyncio.sleep(0)
    assert not waiting.done() and spending.reserved_microusd == 80
    await spending.settle(80, 50)
    await waiting
    assert (spending.spent_microusd, spending.reserved_microusd) == (50, 40)


async def test_a_request_that_waits_ends_once_nothing_is_left_to_give_back():
    spending = Spending(100, 0)
    await spending.reserve(80)
    waiting = asyncio.create_task(spending.reserve(40))
    await asyncio.sleep(0)
    await spending.settle(80, 80)
    with pytest.raises(CapReached):
        await waiting


async def test_a_request_that_is_cancelled_while_it_waits_reserves_nothing():
    spending = Spending(100, 0)
    await spending.reserve(100)
    waiting = asyncio.create_task(spending.reserve(1))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await spending.settle(100, 0)
    assert (spending.spent_microusd, spending.reserved_microusd) == (0, 0)


async def test_without_a_cap_nothing_waits_and_all_is_counted():
    spending = Spending(None, 5)
    await spending.reserve(10**12)
    await spending.reserve(10**12)
    await spending.settle(10**12, 7)
    assert (spending.spent_microusd, spending.reserved_microusd) == (12, 10**12)
