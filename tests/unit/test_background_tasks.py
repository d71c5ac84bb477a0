"""Background tasks are started again however they end, and what failed is shown."""

import asyncio
import contextlib
import logging

import pytest

from app.process import background_tasks
from app.process.background_tasks import BackgroundTask, finish_despite_cancellation


async def test_failed_task_is_logged_shown_and_started_again(caplog: pytest.LogCaptureFixture):
    runs = 0
    second_run = asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise ZeroDivisionError("the first run")
        second_run.set()
        await asyncio.Event().wait()

    task = BackgroundTask("counting", work)
    assert task.failure is None
    with caplog.at_level(logging.ERROR):
        task.start()
        await second_run.wait()
    assert (task.failure, task.failure_count) == ("ZeroDivisionError", 1)
    assert "the first run" in caplog.text
    await task.stop()


@pytest.mark.parametrize("end", ["returns", "is cancelled from within"])
async def test_task_that_ends_without_an_error_is_started_again(end: str):
    third_run = asyncio.Event()
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 3:
            third_run.set()
            await asyncio.Event().wait()
        if end != "returns":
            raise asyncio.CancelledError

    task = BackgroundTask("ending", work)
    task.start()
    await third_run.wait()
    assert task.failure_count == 2
    await task.stop()
    assert runs == 3


async def test_stopped_task_counts_no_failure():
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    task = BackgroundTask("waiting", work)
    task.start()
    await started.wait()
    await task.stop()
    assert (task.failure, task.failure_count) == (None, 0)


async def test_cancellation_from_outside_ends_the_task():
    """The event loop cancels tasks when it ends: a task that went on would keep the process from ending."""

    async def work() -> None:
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    BackgroundTask("outside", work).start()
    (running,) = asyncio.all_tasks() - before
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait((running,))
    assert running.cancelled()


async def test_work_is_finished_before_a_cancellation_takes_effect():
    steps: list[str] = []
    may_end = asyncio.Event()

    async def work() -> None:
        steps.append("begun")
        await may_end.wait()
        steps.append("ended")

    request = asyncio.create_task(finish_despite_cancellation(work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for _ in range(2):
        request.cancel()
        await asyncio.sleep(0)
    assert steps == ["begun"] and not request.done()
    may_end.set()
    await asyncio.wait([request])
    assert steps == ["begun", "ended"] and request.cancelled()


async def test_error_of_work_that_must_be_finished_is_raised():
    async def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await finish_despite_cancellation(work())


async def test_work_that_swallows_a_cancellation_is_cancelled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "_CANCEL_AGAIN_S", 0.01)
    waiting = asyncio.Event()

    async def work() -> None:
        waiting.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    task = BackgroundTask("stubborn", work)
    task.start()
    await waiting.wait()
    await task.stop()
    assert task.failure is None
