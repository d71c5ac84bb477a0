"""What an erasure does to units of experiments: nothing says whose they were, and sums stay."""

from typing import Any

import pytest

from app.domain import Assignment
from app.settings import Settings
from tests.integration.test_erasures import ANN, carry_out, everything_stored, of_ann, received, record, settings, valkey, valkey_server
from tests.integration.test_experiment_units import count, start_experiment
from tests.support.writer_process import fetch

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
