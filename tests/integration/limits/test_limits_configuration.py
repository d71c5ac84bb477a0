"""Limits, prices and teams in configuration files: apply and export, refusals, and the warnings of a preview."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from app.domain.callers import TeamConfig
from app.domain.errors import BadConfiguration
from app.domain.limits import Limit
from app.domain.prices import Price
from app.settings import Settings
from app.store.configuration import apply_file, config_file, configuration
from app.store.configuration.snapshot_cache import SnapshotCache
from app.store.configuration.snapshots import build_snapshot
from app.store.postgres.database import connect, create_database_engine
from app.store.teams import keys
from tests.support.processes.postgres import Postgres
from tests.support.processes.wait_until import wait_until

START = """
[teams.legal]
content = "none"

[providers.p]
adapter = "openai"
base_url = "http://127.0.0.1:9"
[models.a]
targets = [{ provider = "p", model = "x" }]
output_tokens = 1000

[[limits]]
name = "per-key requests"
scope = { key = "each" }
resource = "requests"
amount = 600
per = "minute"

[[limits]]
name = "money"
scope = { team = "legal", "tag:case" = "each" }
resource = "cost_usd"
amount = 12.5
per = "month"
time_zone = "Europe/Berlin"
on_outage = "refuse"

[[limits]]
name = "slots"
scope = "all"
resource = "concurrency"
amount = 64
dry_run = true

[[prices]]
provider = "p"
model = "x"
input = 0.15
output = 0.6
cached_input = 0.075
source = "the provider's page, read in November"

[[prices]]
provider = "p"
model = "x"
input = 0.1
output = 0.5
since = 2026-12-01
"""


async def applied(database_url: str, content: str, *, prune: bool = False) -> str:
    return await apply_file.apply(database_url, content, prune=prune, confirm=lambda _: True, wait_s=0)


async def preview_apply(database_url: str, content: str, *, prune: bool = False) -> str:
    """The difference that is shown for confirmation, which is refused."""
    differences: list[str] = []

    def refuse(difference: str) -> bool:
        differences.append(difference)
        return False

    assert await apply_file.apply(database_url, content, prune=prune, confirm=refuse, output_tokens=500) == "Nothing was changed."
    return differences[0]


@pytest.fixture(scope="module")
async def applied_database(postgres: Postgres) -> str:
    """A database in which START is applied, for tests that change nothing."""
    await postgres.execute("CREATE DATABASE applied_limits TEMPLATE migrated")
    url = postgres.database_url("applied_limits")
    await applied(url, START)
    return url


async def exported_file(database_url: str) -> config_file.ConfigFile:
    return config_file.parse_config_file(await configuration.export(database_url))


async def test_limits_prices_and_teams_round_trip_through_apply_and_export(applied_database: str):
    exported_toml = await configuration.export(applied_database)
    assert config_file.parse_config_file(exported_toml) == config_file.parse_config_file(START)
    assert await applied(applied_database, exported_toml, prune=True) == "Nothing to change."
    assert await applied(applied_database, START) == "Nothing to change."


async def test_apply_replaces_limits_by_name_and_prices_by_start_date(database: str):
    await applied(database, START)
    more = """
        limits = [
            { name = "money", scope = { team = "legal" }, resource = "cost_usd", amount = 20, per = "month" },
            { name = "new", scope = "all", resource = "requests", amount = 5, per = "second" },
        ]
        prices = [{ provider = "p", model = "x", since = "2026-12-01", input = 0.2, output = 0.4 }]
        [teams]
        legal = { content = "redacted" }
        sales = {}
    """
    assert (await applied(database, more)).startswith("Applied as version 2")
    file = await exported_file(database)
    assert file.limits and [(limit.name, limit.amount) for limit in file.limits] == [
        ("per-key requests", 600),
        ("money", 20),
        ("slots", 64),
        ("new", 5),
    ]
    assert file.prices and [(price.since, price.input) for price in file.prices] == [(None, 0.15), ("2026-12-01", 0.2)]
    assert file.teams == {"legal": TeamConfig(content="redacted"), "sales": TeamConfig(content="full")}


async def test_prune_removes_limits_and_prices_of_a_section_but_never_teams(database: str):
    await applied(database, START)
    await applied(database, "prices = []\n[teams]", prune=True)
    file = await exported_file(database)
    assert file.prices is None and file.limits and len(file.limits) == 3 and file.teams == {"legal": TeamConfig(content="none")}
    kept = Limit(name="slots", scope={"all": "each"}, resource="concurrency", amount=64)
    await applied(database, '[[limits]]\nname = "slots"\nscope = "all"\nresource = "concurrency"\namount = 64', prune=True)
    assert (await exported_file(database)).limits == (kept,)
    assert await applied(database, "limits = []") == "Nothing to change.", "without --prune it removes nothing"
    await applied(database, "limits = []", prune=True)
    assert (await exported_file(database)).limits is None


async def test_prune_adopts_the_files_limit_order(database: str):
    await applied(database, START)
    file = await exported_file(database)
    assert file.limits
    first, *rest = configuration.write_file(build_snapshot(0, {}, {}, file.limits[::-1]), {}).split("[[limits]]")
    await applied(database, "[[limits]]".join([first, *rest]), prune=True)
    assert (await exported_file(database)).limits == file.limits[::-1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '[[limits]]\nname = "x"\nscope = { model = "gone" }\nresource = "requests"\namount = 1\nper = "day"',
            "no model 'gone'. There are: a.",
        ),
        (
            '[[limits]]\nname = "x"\nscope = { key = "each" }\nresource = "requests"\namount = 5\nper = "minute"',
            'contradicts limits["per-key',
        ),
        ('[[limits]]\nname = "x"\nscope = { tag = "each" }\nresource = "requests"\namount = 5\nper = "minute"', "names no tag"),
        ('[[prices]]\nprovider = "q"\nmodel = "x"\ninput = 1\noutput = 1', "no provider 'q'. There are: p."),
        ('[teams." x"]', "1 to 200 printable characters"),
        ('[models.a]\ntargets = [{ provider = "p", model = "x" }]\noutput_tokens = 0', "output_tokens must be 1 or more"),
    ],
)
async def test_invalid_limits_and_prices_are_refused_and_change_nothing(applied_database: str, content: str, message: str):
    before = await configuration.export(applied_database)
    with pytest.raises(BadConfiguration) as caught:
        await applied(applied_database, f"{content}\n[teams.new]")
    assert message in str(caught.value)
    assert await configuration.export(applied_database) == before


async def test_model_named_by_a_limit_and_provider_with_prices_cannot_be_pruned(database: str):
    await applied(database, START.replace('{ key = "each" }', '{ model = "a" }'))
    with pytest.raises(BadConfiguration, match="no model 'a'"):
        await applied(database, "[models]", prune=True)
    await applied(database, "limits = []\n[models]", prune=True)
    with pytest.raises(BadConfiguration, match=r'prices\["p", "x"\]\.provider'):
        await applied(database, "[providers]", prune=True)


async def test_apply_warnings_follow_the_diff(database: str):
    await applied(database, START)
    more = """
        [[limits]]
        name = "small"
        scope = { team = "nobody", key = "0123456789ab" }
        resource = "output_tokens"
        amount = 100
        per = "minute"
        [models.b]
        targets = [{ provider = "p", model = "unpriced" }]
    """
    lines = (await preview_apply(database, more)).splitlines()
    assert '+name = "small"' in lines
    warnings = [line for line in lines if line.startswith("Warning: ")]
    assert lines[-len(warnings) :] == warnings and len(warnings) == 4
    subjects = ("no team 'nobody'", "no key nx-0123456789ab", "for a, b reserves", 'limits["money"]: requests for b will be')
    assert [subject for subject in subjects if subject not in "\n".join(warnings)] == []
    assert not [line for line in (await preview_apply(database, "[teams.other]")).splitlines() if line.startswith("Warning")]


async def test_limit_may_name_a_key_by_its_public_prefix(database: str):
    await applied(database, START)
    public = (await keys.create_key(database, "legal")).split("-")[1]
    rule = f'[[limits]]\nname = "one"\nscope = {{ key = "{public}" }}\nresource = "requests"\namount = 1\nper = "day"'
    assert "Warning" not in await preview_apply(database, rule)


async def test_applied_limits_reach_every_worker_before_apply_returns_and_policies_soon_after(database: str, tmp_path: Path):
    await applied(database, START)
    key = await keys.create_key(database, "legal")
    database_engine = create_database_engine(database)
    caches = [SnapshotCache(Settings(home=tmp_path / name, database_url=database), database_engine, name) for name in ("w0", "w1")]
    for cache in caches:
        await cache.start()
        caller = await cache.keys.find(key)
        assert caller is not None and caller.content == "none" and len(cache.snapshot.limits) == 3

    async def policies_are_full() -> bool:
        return {caller and caller.content for cache in caches for caller in [await cache.keys.find(key)]} == {"full"}

    try:
        more = START.replace('"none"', '"redacted"').replace("amount = 600", "amount = 5")
        done = await apply_file.apply(database, more, prune=False, confirm=lambda _: True, wait_s=60)
        assert "2 workers serve it" in done
        assert [cache.snapshot.limits[0].amount for cache in caches] == [5, 5]
        done = await apply_file.apply(database, more.replace('"redacted"', '"full"'), prune=False, confirm=lambda _: True, wait_s=60)
        assert "2 workers serve it" in done
        await wait_until(policies_are_full)
        assert caches[0].snapshot.prices[0] == Price(
            "p", "x", input=0.15, output=0.6, cached_input=0.075, source="the provider's page, read in November"
        )
    finally:
        for cache in caches:
            await cache.stop()
        await database_engine.dispose()


async def test_concurrent_team_change_refuses_the_apply_and_is_kept(database: str):
    await applied(database, START)

    async def change() -> None:
        connection = await connect(database)
        await connection.execute("UPDATE teams SET content = 'full' WHERE name = 'legal'")
        await connection.close()

    def confirm_after_concurrent_change(_: str) -> bool:
        other = threading.Thread(target=lambda: asyncio.run(change()))
        other.start()
        other.join()
        return True

    with pytest.raises(BadConfiguration, match="Somebody else changed"):
        await apply_file.apply(
            database, '[teams.legal]\ncontent = "redacted"', prune=False, confirm=confirm_after_concurrent_change, wait_s=0
        )
    assert (await exported_file(database)).teams == {"legal": TeamConfig(content="full")}


async def test_limit_is_new_when_it_is_added_or_counts_something_else(database: str):
    """The time since which a limit counts tells a new one from one whose count was lost with Redis's memory."""
    await applied(database, START)
    connection = await connect(database)
    # As if that had been a while ago; the rules of before the upgrade have none.
    await connection.execute("UPDATE limits SET counted_since = CASE name WHEN 'slots' THEN NULL ELSE '2026-01-01'::timestamptz END")
    await connection.close()
    before = (await configuration.read_current(database)).limits_since
    assert before.keys() == {"per-key requests", "money"}

    same = START.replace("amount = 600", 'amount = 5\nafter_loss = "spent"').replace("amount = 64", "amount = 63")
    await applied(database, same)
    assert (await configuration.read_current(database)).limits_since == before

    began_ms = time.time() * 1000
    added = '[[limits]]\nname = "new"\nscope = "all"\nresource = "requests"\namount = 5\nper = "hour"\n'
    await applied(database, same.replace('{ key = "each" }', '{ team = "each" }') + added)
    after = (await configuration.read_current(database)).limits_since
    assert after.keys() == {"per-key requests", "money", "new"} and after["money"] == before["money"]
    assert all(abs(after[name] - began_ms) < 300_000 for name in ("per-key requests", "new"))
