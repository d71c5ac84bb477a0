"""Waiting for gateway processes: until all that are live serve a change, and never for long."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from app.store.workers.applied_changes import Applied, AppliedChanges
from app.store.workers.reports import LiveWorker, ServedVersions

CHANGE = ServedVersions(configuration=5, keys=7)


class Workers:
    """The workers that Postgres shows, state after state: the last one stays. An error among them is raised."""

    def __init__(self, *states: Sequence[LiveWorker] | Exception) -> None:
        self._states = list(states)
        self.reads = 0

    async def read(self) -> Sequence[LiveWorker]:
        self.reads += 1
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        if isinstance(state, Exception):
            raise state
        return state


def worker(id: str, configuration: int, keys: int | None) -> LiveWorker:
    return LiveWorker(id, configuration, keys)


async def wait(workers: Workers, timeout_s: float = 30.0, change: ServedVersions = CHANGE) -> tuple[Applied, float]:
    began_s = time.monotonic()
    applied = await AppliedChanges(workers.read).wait(change, timeout_s)
    return applied, time.monotonic() - began_s


async def test_the_wait_ends_when_every_process_serves_both_versions() -> None:
    workers = Workers(
        [worker("a", 5, 7), worker("b", 4, 7)], [worker("a", 5, 7), worker("b", 5, 6)], [worker("a", 6, 9), worker("b", 5, 7)]
    )
    assert (await wait(workers))[0] == Applied(2) and workers.reads == 3


async def test_a_version_that_the_change_did_not_make_is_not_waited_for() -> None:
    assert (await wait(Workers([worker("a", 1, 7)]), change=ServedVersions(keys=7)))[0] == Applied(1)
    assert (await wait(Workers([worker("a", 5, 1)]), change=ServedVersions(configuration=5)))[0] == Applied(1)


async def test_the_wait_is_bounded_and_names_who_is_behind() -> None:
    applied, took_s = await wait(Workers([worker("a", 5, 7), worker("b", 4, 7)]), timeout_s=0.3)
    assert applied == Applied(2, ("b",)) and took_s < 5


async def test_without_a_wait_one_look_is_enough() -> None:
    workers = Workers([worker("a", 4, 7)])
    assert (await wait(workers, timeout_s=0))[0] == Applied(1, ("a",)) and workers.reads == 1


async def test_a_process_that_is_gone_is_waited_for_no_longer() -> None:
    assert (await wait(Workers([worker("a", 5, 7), worker("b", 4, 7)], [worker("a", 5, 7)])))[0] == Applied(1)


async def test_a_process_of_an_earlier_version_is_named_and_not_waited_for() -> None:
    workers = Workers([worker("old", 5, None), worker("a", 5, 7)])
    assert (await wait(workers))[0] == Applied(2, ("old",)) and workers.reads == 1
    assert (await wait(Workers([worker("old", 5, None)]), change=ServedVersions(configuration=5)))[0] == Applied(1)


async def test_what_postgres_does_not_say_is_unknown() -> None:
    assert (await wait(Workers(OSError("away")), timeout_s=0.1))[0] == Applied(None)
    assert (await wait(Workers(OSError("away"), [worker("a", 5, 7)])))[0] == Applied(1)


async def test_a_silent_postgres_ends_no_later_than_the_wait() -> None:
    class Silent(Workers):
        async def read(self) -> Sequence[LiveWorker]:
            await asyncio.sleep(60)
            return []

    applied, took_s = await wait(Silent([]), timeout_s=0)
    assert applied == Applied(None) and took_s < 30


async def test_those_who_wait_at_the_same_time_share_queries() -> None:
    workers = Workers(*([[worker("a", 4, 7)]] * 5), [worker("a", 5, 7)])
    changes = AppliedChanges(workers.read)
    found = await asyncio.gather(*(changes.wait(CHANGE, 30) for _ in range(200)))
    assert found == [Applied(1)] * 200 and workers.reads < 50


@pytest.mark.parametrize(
    ("applied", "words"),
    [
        (Applied(1), "1 worker serves it."),
        (Applied(3), "3 workers serve it."),
        (Applied(3, ("b",)), "2 of 3 workers serve it after 5 s, and these do not: b. See their logs."),
        (Applied(None), "whether every worker serves it is not known, as the database did not answer."),
    ],
    ids=["one", "all", "behind", "unknown"],
)
def test_the_result_reads_as_a_sentence(applied: Applied, words: str) -> None:
    assert applied.in_words(5.0) == words


def test_a_long_list_of_processes_is_cut() -> None:
    assert "w9, and 15 more" in Applied(30, tuple(f"w{number}" for number in range(25))).in_words(5.0)
