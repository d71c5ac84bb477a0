"""An erasure of units of experiments leaves nothing that says whose they were, and sums stay."""

from typing import Any

import pytest

from app.domain import uuid7
from app.domain.experiment_unit import draw_enrolment, episode_unit, value_unit
from app.domain.experiments import Assignment
from app.recording.erasure.hashes import Selector
from app.recording.spool.spool import Spool
from app.settings import Settings
from tests.integration.experiments.test_experiment_units import count, start_experiment
from tests.integration.recording.test_erasures import (
    ANN,
    LATER,
    carry_out,
    everything_stored,
    of_ann,
    received,
    record,
    settings,
    valkey,
    valkey_server,
)
from tests.integration.usage.test_rollups import TEAMS
from tests.support.processes.writer_process import drain, fetch
from tests.support.spooled_feedback import make_feedback, spool_feedback

__all__ = ["settings", "valkey", "valkey_server"]

HASH, OTHER_HASH = "aaaa000011112222", "bbbb000011112222"
TOTALS = "SELECT metric, slice, arm, sum(n) AS n, sum(y) AS y, sum(yy) AS yy FROM experiment_sums GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"


def enrolled(unit: str) -> dict[str, Any]:
    return {"variant": "a", "assignment": Assignment("e", 1, "a", 0.5, None, unit, "minted")}


async def test_erased_units_are_nobodys_and_sums_stay(settings: Settings):
    await start_experiment(settings.database_url, "e", "user", slices=["mail"])
    await record(
        settings, of_ann(2, **enrolled(HASH)), received(2, end_user="bob", tags={"mail": "bob@example.com"}, **enrolled(OTHER_HASH))
    )
    await count(settings.database_url)
    before = await fetch(settings.database_url, TOTALS)
    assert HASH in (stored := await everything_stored(settings.database_url)) and "ann@example.com" in stored
    await carry_out(settings, ANN)
    await count(settings.database_url)
    assert await fetch(settings.database_url, TOTALS) == before and before
    stored = await everything_stored(settings.database_url)
    assert HASH not in stored and "ann@example.com" not in stored
    assert OTHER_HASH in stored and "bob@example.com" in stored
    values = await fetch(settings.database_url, "SELECT DISTINCT value FROM experiment_sums WHERE slice = 'mail' ORDER BY 1")
    assert [row["value"] for row in values] == ["(erased)", "bob@example.com"]


async def test_unit_that_is_erased_while_it_is_open_is_excluded(settings: Settings):
    await start_experiment(settings.database_url, "e", "user")
    await record(settings, of_ann(0, **enrolled(HASH)))
    await count(settings.database_url)
    await carry_out(settings, ANN)
    await count(settings.database_url)
    counts = await fetch(settings.database_url, "SELECT sum(units)::int AS units, sum(excluded)::int AS excluded FROM experiment_counts")
    assert [tuple(row.values()) for row in counts] == [(0, 1)]
    assert HASH not in await everything_stored(settings.database_url)


@pytest.mark.parametrize("first", ["ann", "bob"])
async def test_team_is_no_second_unit_after_the_erasure_of_one_of_its_users(settings: Settings, first: str):
    await start_experiment(settings.database_url, "e", "team", slices=["mail"])
    by_day = [2.0, 1.99] if first == "ann" else [1.99, 2.0]
    bob = {"end_user": "bob", "tags": {"mail": "bob@example.com"}, **enrolled(HASH)}
    await record(settings, of_ann(by_day[0], **enrolled(HASH)), received(by_day[1], **bob))
    await count(settings.database_url)
    before = await fetch(settings.database_url, TOTALS)
    await carry_out(settings, ANN)
    await count(settings.database_url)
    await record(settings, received(0.5, **bob))
    await count(settings.database_url)
    units = await fetch(settings.database_url, "SELECT unit, state FROM experiment_units")
    assert [tuple(row) for row in units] == [(HASH, "complete")]
    assert await fetch(settings.database_url, TOTALS) == before and before
    assert "ann@example.com" not in await everything_stored(settings.database_url)


def hash_of(unit: bytes) -> str:
    return draw_enrolment("s", unit).hex()


@pytest.mark.parametrize(
    ("unit", "selector", "value"),
    [("user", ANN, "ann"), ("tag:mail", Selector("tag", "mail", "ann@example.com"), "ann@example.com")],
    ids=["user", "tag"],
)
async def test_unit_whose_inferences_have_expired_is_found_by_its_hash(settings: Settings, unit: str, selector: Selector, value: str):
    await start_experiment(settings.database_url, "e", unit, slices=["mail"])
    mine, others = hash_of(value_unit(TEAMS[0], value)), hash_of(value_unit(TEAMS[0], "bob"))
    bob = received(2, end_user="bob", tags={"mail": "bob"}, **enrolled(others))
    await record(settings, of_ann(2, **enrolled(mine)), bob)
    await count(settings.database_url)
    before = await fetch(settings.database_url, TOTALS)
    await fetch(settings.database_url, "DELETE FROM inferences")
    units = "SELECT unit, slices::text FROM experiment_units UNION SELECT '', value FROM experiment_sums"
    assert {(mine, "{ann@example.com}"), (others, "{bob}")} < {tuple(row) for row in await fetch(settings.database_url, units)}
    await carry_out(settings, selector)
    await count(settings.database_url)
    assert await fetch(settings.database_url, TOTALS) == before and before
    left = {tuple(row) for row in await fetch(settings.database_url, units)}
    assert (others, "{bob}") in left
    assert not any("ann" in text or mine in text for row in left for text in row)


async def test_order_of_a_team_leaves_units_of_others(settings: Settings):
    await fetch(settings.database_url, "INSERT INTO teams (id, name) VALUES ($1, 'sales')", TEAMS[0])
    await start_experiment(settings.database_url, "e", "user")
    units = [hash_of(value_unit(team, "ann")) for team in TEAMS[:2]]
    await record(settings, *(of_ann(2, team_id=team, **enrolled(unit)) for team, unit in zip(TEAMS, units, strict=False)))
    await count(settings.database_url)
    await fetch(settings.database_url, "DELETE FROM inferences")
    await carry_out(settings, ANN, team="sales")
    stored = await everything_stored(settings.database_url)
    assert units[0] not in stored and units[1] in stored


async def test_unit_of_what_came_after_the_order_stays(settings: Settings):
    await start_experiment(settings.database_url, "e", "user")
    unit = hash_of(value_unit(TEAMS[0], "ann"))
    await record(settings, of_ann(2), of_ann(LATER, **enrolled(unit)))
    await count(settings.database_url)
    await carry_out(settings, ANN)
    assert [row["unit"] for row in await fetch(settings.database_url, "SELECT unit FROM experiment_units")] == [unit]


async def test_unit_that_is_an_episode_is_found_by_its_hash(settings: Settings):
    await start_experiment(settings.database_url, "e", "episode")
    episode = uuid7.mint()
    unit = hash_of(episode_unit(TEAMS[0], episode))
    await record(settings, of_ann(2, episode_id=episode, **enrolled(unit)))
    await count(settings.database_url)
    await fetch(settings.database_url, "DELETE FROM inferences")
    await carry_out(settings, Selector("episode", None, episode))
    assert unit not in await everything_stored(settings.database_url)


async def test_feedback_from_before_an_experiment_is_nobodys(settings: Settings):
    mine, bobs = (hash_of(value_unit(TEAMS[0], name)) for name in ("ann", "bob"))
    ids = await record(settings, of_ann(2), received(2, end_user="bob"))
    spool = Spool(settings.home / "spool", settings)
    at_us = uuid7.created_ms(ids[0]) * 1000 + 2_000
    spool_feedback(spool, *(make_feedback(id, team_id=TEAMS[0], received_us=at_us) for id in ids))
    spool.close()
    await drain(settings)
    await start_experiment(settings.database_url, "e", "user", metrics=["helpful"])
    await count(settings.database_url)
    units = "SELECT unit FROM pre_period_feedback"
    assert {row["unit"] for row in await fetch(settings.database_url, units)} == {mine, bobs}
    await carry_out(settings, ANN)
    assert {row["unit"] for row in await fetch(settings.database_url, units)} == {bobs}
    # A scan after the order does not find her.
    await start_experiment(settings.database_url, "later", "user", metrics=["helpful"])
    await count(settings.database_url)
    assert [row["unit"] for row in await fetch(settings.database_url, units)] == [bobs, bobs]
