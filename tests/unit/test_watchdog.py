"""A test that hangs fails, and shows where its tasks wait."""

import asyncio

import pytest

from tests.support.processes import watchdog


async def _wait_for_ever() -> None:
    await asyncio.Event().wait()


def test_hang_fails_and_shows_where_the_task_waits(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(pytest.fail.Exception, match="hangs"), watchdog.watch(0.2):
        asyncio.run(_wait_for_ever())
    assert "_wait_for_ever" in capfd.readouterr().err
