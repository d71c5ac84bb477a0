"""Work in steps: the event loop has the interpreter while a thread computes."""

import asyncio
import time

from app.process.thread_steps import in_steps, run_in_steps


def compute_for(seconds: float) -> None:
    ends_s = time.thread_time() + seconds
    while time.thread_time() < ends_s:
        pass


async def test_stepwise_work_pauses_between_items_that_take_longer_than_a_step():
    def work() -> tuple[list[int], float]:
        began_s, began_cpu_s = time.monotonic(), time.thread_time()
        items = [compute_for(0.001) or item for item in in_steps(range(40))]
        return items, time.monotonic() - began_s - (time.thread_time() - began_cpu_s)

    items, slept_s = await run_in_steps(work)
    assert items == list(range(40)) and slept_s > 39 * 0.0004


async def test_event_loop_keeps_turning_while_work_runs_in_steps():
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    await run_in_steps(lambda: [compute_for(0.001) for _ in in_steps(range(100))])
    counting.cancel()
    assert turns > 100  # at least one in each pause


def test_work_outside_of_a_stepwise_thread_never_pauses():
    items = range(3)
    assert in_steps(items) is items


async def test_work_after_stepwise_work_in_the_same_thread_never_pauses():
    await run_in_steps(lambda: None)
    items = range(3)
    assert await asyncio.to_thread(in_steps, items) is items
