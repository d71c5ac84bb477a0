"""The successor of an earlier version's writer finds what that one stored about experiments after `migrate`, and counts it."""

import random
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory

from app.recording.writer import batch_store, writer
from app.recording.writes import uncounted_spools
from app.settings import Settings
from app.store.schema.migrate import alembic_config
from tests.integration.experiments.test_experiment_units import METRICS, count, random_exchanges, settings, spool_random, start_experiment
from tests.support.experiment_scan import assert_sums_equal_a_scan
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import drain, fetch, running_writer

__all__ = ["settings"]


async def drain_as_before(settings: Settings) -> None:
    """Drains the spool as a writer that knows nothing of units."""

    async def do_nothing(*_: Any) -> None:
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_store, "touch_units", do_nothing)
        patch.setattr(writer, "touch_uncounted", do_nothing)
        await drain(settings)


async def list_spools(database: str) -> None:
    """Lists the spools as the migration does."""
    revision = ScriptDirectory.from_config(alembic_config()).get_revision("0048")
    await fetch(database, revision.module._SPOOLS)  # pyright: ignore[reportPrivateUsage]


async def test_what_the_earlier_writer_stores_after_the_migration_is_counted(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uncounted_spools, "SLICE_ROWS", 30)
    database = settings.database_url
    await start_experiment(database, "episodes", "episode", metrics=METRICS)
    chance, sources = random.Random(4), [random_exchanges(4, "episodes", "episode")]
    spool_random(settings, sources, chance, 50)
    await drain_as_before(settings)
    await list_spools(database)
    spool_random(settings, sources, chance, 200)
    await drain_as_before(settings)
    await count(database)
    with pytest.raises(AssertionError, match="kept and scanned differ"):
        await assert_sums_equal_a_scan(database)

    async def has_looked_at_all() -> bool:
        return not await fetch(database, "SELECT FROM uncounted_spools")

    async with running_writer(settings):
        await wait_until(has_looked_at_all)
    await count(database)
    assert await assert_sums_equal_a_scan(database) > 5
    (touched,) = await fetch(database, "SELECT count(*) AS left FROM touched_units")
    assert touched["left"] == 0, "and nothing is looked at again"


async def test_a_killed_successor_goes_on_where_it_was_and_other_spools_wait_for_theirs(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(uncounted_spools, "SLICE_ROWS", 30)
    database = settings.database_url
    await start_experiment(database, "episodes", "episode", metrics=METRICS)
    spool_random(settings, [random_exchanges(4, "episodes", "episode")], random.Random(4), 100)
    await fetch(database, "INSERT INTO spools (spool, stored_until) VALUES ('another', now())")
    await drain_as_before(settings)
    await list_spools(database)
    slices = 0
    done = uncounted_spools.touch_uncounted

    async def fail_after_each(*arguments: Any) -> bool:
        nonlocal slices
        has_more = await done(*arguments)
        slices += 1
        if has_more:
            raise OSError("the connection was lost")
        return has_more

    monkeypatch.setattr(writer, "touch_uncounted", fail_after_each)
    monkeypatch.setattr(writer, "MAX_RETRY_WAIT_S", 0.1)

    async def has_looked_at_all() -> bool:
        return [row["spool"] for row in await fetch(database, "SELECT spool FROM uncounted_spools")] == ["another"]

    async with running_writer(settings):
        await wait_until(has_looked_at_all)
    assert slices == 100 // 30 + 1
    await count(database)
    assert await assert_sums_equal_a_scan(database) > 5
