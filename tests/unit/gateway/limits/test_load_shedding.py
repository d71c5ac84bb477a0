"""Who is refused when a process has too many requests: the busiest teams and the lowest priorities first, and nobody for long."""

import asyncio
import time

import pytest

from app.domain.callers import Caller
from app.gateway.pipeline.load_shedding import LoadShedder
from app.settings import Settings
from providers.canonical.errors import Unavailable
from tests.support.processes.wait_until import wait_until


def caller(team: str, priority: int = 0) -> Caller:
    return Caller("key", team, team, "full", priority=priority)


def fill(shedder: LoadShedder, team: str, priority: int = 0) -> int:
    """Enters requests until one is refused, and returns how many were admitted."""
    count = 0
    try:
        while True:
            shedder.enter(caller(team, priority))
            count += 1
    except Unavailable as refusal:
        assert refusal.retry_after_s
        return count


def test_one_team_leaves_room_for_the_next_ones():
    shedder = LoadShedder(Settings(requests_max=1_000))
    counts = [fill(shedder, f"team{number}") for number in range(4)]
    assert counts[0] == 720 and sum(counts) <= 900 and min(counts) > 0
    for number, count in enumerate(counts):
        for _ in range(count):
            shedder.leave(caller(f"team{number}"))
    assert shedder.in_progress == 0 and fill(shedder, "team0") == 720


def test_lower_priorities_are_refused_first():
    shedder = LoadShedder(Settings(requests_max=1_000))
    assert [fill(shedder, "team", priority) for priority in (-100, 0, 100)] == [640, 80, 80]


def test_room_shrinks_while_the_event_loop_is_late_and_grows_again():
    shedder = LoadShedder(Settings(requests_max=1_000, shed_lag_s=0.5))
    fill(shedder, "team")
    for _ in range(3):
        shedder.adapt(0.6)
    assert shedder.room < 720 * 0.8
    for _ in range(200):
        shedder.adapt(0.6)
    assert shedder.room == 100
    for _ in range(200):
        shedder.adapt(0.1)
    assert shedder.room == 1_000


async def test_late_event_loop_is_noticed():
    shedder = LoadShedder(Settings(requests_max=1_000, shed_lag_s=0.05))
    fill(shedder, "team")
    shedder.task.start()

    def block() -> None:
        time.sleep(0.2)
        blocking.append(asyncio.get_running_loop().call_soon(block))

    blocking: list[asyncio.Handle] = []
    block()
    try:
        await wait_until(lambda: shedder.room < 1_000)
    finally:
        blocking[-1].cancel()
        await shedder.task.stop()


@pytest.mark.parametrize("requests_max", [1, 2, 10])
def test_small_rooms_serve_somebody(requests_max: int):
    assert fill(LoadShedder(Settings(requests_max=requests_max)), "team") >= 1
