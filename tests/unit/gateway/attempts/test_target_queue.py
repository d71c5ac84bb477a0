"""Turns of those who wait for a place at a target: by priority, then fairly among teams; and nothing is lost on the way."""

import asyncio
from typing import Any, cast

import pytest

from app.gateway.attempts.target_queues import Place, TargetQueue
from app.gateway.limits.limits import Limits
from app.gateway.limits.reservation import Reservation
from app.gateway.limits.rule_matcher import RuleMatch
from providers.canonical.errors import LimitExceeded, Unavailable
from tests.support.processes.wait_until import wait_until


class Places:
    """The part of Limits that a queue uses."""

    def __init__(self, amount: int) -> None:
        self.free = amount
        self.ids: set[str] = set()
        self.fault: Exception | None = None

    async def take_place(self, id: str, match: RuleMatch) -> Reservation:
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        if not self.free:
            raise LimitExceeded("full", code="", details={}, retry_after_s=1, headers=())
        assert id not in self.ids
        self.ids.add(id)
        self.free -= 1
        return cast(Reservation, object())

    def cancel(self, reservation: Reservation) -> None:
        self.free += 1


class Waiters:
    """Requests that wait, and the order in which they got their places."""

    def __init__(self, amount: int = 1, max_waiting: int = 100) -> None:
        self.places = Places(amount)
        self.queue = TargetQueue(cast(Limits, self.places), cast(RuleMatch, None), max_waiting)
        self.served: list[str] = []
        self.tasks: dict[str, asyncio.Task[Any]] = {}

    async def add(self, name: str, team: str = "team", priority: int = 0, wait_s: float = 30) -> None:
        """Returns once it waits."""
        waiting = self.queue.waiting_count
        self.start(name, team, priority, wait_s)
        await wait_until(lambda: self.queue.waiting_count != waiting or self.tasks[name].done(), interval_s=0)

    def start(self, name: str, team: str = "team", priority: int = 0, wait_s: float = 30) -> None:
        async def wait() -> None:
            place = await self.queue.take(team, priority, wait_s)
            self.served.append(name)
            await asyncio.sleep(0.001)
            place.release()
            place.release()

        self.tasks[name] = asyncio.create_task(wait())

    async def finish(self, first: Place) -> list[str]:
        first.release()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        return self.served


async def test_teams_take_turns_whoever_sends_more():
    waiters = Waiters()
    first = await waiters.queue.take("busy", 0, 0)
    for number in range(6):
        await waiters.add(f"busy{number}", "busy")
    await waiters.add("quiet0", "quiet")
    await waiters.add("quiet1", "quiet")
    assert await waiters.finish(first) == ["busy0", "quiet0", "busy1", "quiet1", "busy2", "busy3", "busy4", "busy5"]
    assert waiters.places.free == 1


async def test_priority_comes_before_turns():
    waiters = Waiters()
    first = await waiters.queue.take("team", 0, 0)
    for name, priority in (("low", -10), ("lower", -50), ("usual", 0)):
        await waiters.add(name, priority=priority)
    assert await waiters.finish(first) == ["usual", "low", "lower"]


async def test_full_queue_refuses_the_lowest_priority():
    waiters = Waiters(max_waiting=2)
    first = await waiters.queue.take("team", 0, 0)
    await waiters.add("low", priority=-10)
    await waiters.add("usual")
    with pytest.raises(Unavailable, match="wait for a place already"):
        await waiters.queue.take("team", -20, 30)
    waiters.start("other")
    with pytest.raises(Unavailable, match="higher priority"):
        await waiters.tasks["low"]
    assert await waiters.finish(first) == ["usual", "other"]


async def test_busy_team_does_not_fill_the_queue():
    waiters = Waiters(max_waiting=3)
    first = await waiters.queue.take("busy", 0, 0)
    for number in range(3):
        await waiters.add(f"busy{number}", "busy")
    with pytest.raises(Unavailable, match="wait for a place already"):
        await waiters.queue.take("busy", 0, 30)
    waiters.start("quiet0", "quiet")
    with pytest.raises(Unavailable, match="teams with fewer requests"):
        await waiters.tasks["busy2"]
    assert await waiters.finish(first) == ["busy0", "quiet0", "busy1"]


async def test_wait_is_bounded_and_says_when_to_come_back():
    waiters = Waiters()
    first = await waiters.queue.take("team", 0, 0)
    for wait_s in (0, 0.01):
        with pytest.raises(Unavailable) as caught:
            await waiters.queue.take("team", 0, wait_s)
        assert caught.value.retry_after_s and waiters.queue.waiting_count == 0
    first.release()
    assert waiters.places.free == 1


async def test_whoever_leaves_at_any_moment_leaves_no_place_taken():
    waiters = Waiters(amount=2)
    for turn in range(200):
        held = [await waiters.queue.take("team", 0, 0) for _ in range(2)]
        tasks = [asyncio.create_task(waiters.queue.take("team", 0, 30)) for _ in range(4)]
        for _ in range(turn % 7):
            await asyncio.sleep(0)
        held[0].release()
        for _ in range(turn % 5):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        for place in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(place, Place):
                place.release()
        held[1].release()
        await wait_until(lambda: waiters.places.free == 2 and waiters.queue.waiting_count == 0, interval_s=0)


async def test_fault_reaches_all_who_wait():
    waiters = Waiters()
    first = await waiters.queue.take("team", 0, 0)
    await waiters.add("one")
    await waiters.add("two")
    waiters.places.fault = Unavailable("Redis is away")
    first.release()
    for task in waiters.tasks.values():
        with pytest.raises(Unavailable, match="Redis is away"):
            await task


async def test_place_that_another_process_frees_is_found():
    waiters = Waiters()
    waiters.places.free = 0
    task = asyncio.create_task(waiters.queue.take("team", 0, 30))
    await wait_until(lambda: waiters.queue.waiting_count == 1)
    waiters.places.free = 1  # freed elsewhere: nobody says so
    (await task).release()
