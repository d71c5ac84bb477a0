"""The configuration's history: any version is found again exactly as it was in force, as long as it is kept."""

import datetime
import hashlib
import json
from collections.abc import AsyncGenerator

import msgspec
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.errors import UnknownVersion
from app.domain.limits import Limit
from app.recording.writes import retention
from app.settings import Settings
from app.store.configuration import expiry as configuration_expiry
from app.store.configuration import snapshots
from app.store.configuration.configuration import change_configuration, edited
from app.store.configuration.roll_back import roll_back
from app.store.configuration.rows import read_state
from app.store.configuration.snapshot_queries import find_snapshot
from app.store.datasets.builds import read_function
from app.store.postgres.audit_log import SYSTEM
from app.store.postgres.database import connect, create_database_engine
from app.store.schema.migrate import migrate
from tests.support.earlier_records import migrate_to
from tests.support.processes.writer_process import fetch
from tests.support.strategies.random_configuration import InForce, document_of, make_changes


@pytest.fixture
async def engine(database: str) -> AsyncGenerator[AsyncEngine]:
    engine = create_database_engine(database)
    yield engine
    await engine.dispose()


async def assert_is_found(engine: AsyncEngine, known: InForce) -> None:
    """Asserts that a state is found by its hash, with each function, and by a rollback to it."""
    hash = known.state.snapshot.hash
    async with engine.connect() as connection:
        found = await find_snapshot(connection, hash)
        assert found is not None and found.document == known.document
        assert hashlib.sha256(msgspec.json.encode(found.document, order="sorted")).hexdigest()[:32] == hash
        for name, function in known.state.snapshot.functions.items():
            assert await read_function(connection, hash, name) == function
        assert await read_function(connection, hash, "no function") is None
        after = (await roll_back(connection, SYSTEM, known.version)).changed.after
        assert after.snapshot.hash == hash
        assert {name: after.teams[name] for name in known.state.teams} == known.state.teams
        await connection.rollback()


@pytest.mark.parametrize("seed", range(4))
async def test_any_version_is_found_as_it_was_in_force(database: str, engine: AsyncEngine, seed: int) -> None:
    made = await make_changes(database, seed, 30)
    for known in made:
        await assert_is_found(engine, known)
    stored = await fetch(database, "SELECT count(document) AS documents, count(DISTINCT hash) AS hashes FROM snapshots")
    assert tuple(stored[0]) == (0, len({each.state.snapshot.hash for each in made})), "no document is stored whole"


async def test_random_changes_are_of_every_section_and_of_positions_alone(database: str) -> None:
    """The test before this one proves something only if its changes reach every section, and positions alone."""
    await make_changes(database, 0, 30)
    (found,) = await fetch(
        database,
        "SELECT array_agg(DISTINCT section ORDER BY section) AS sections,"
        " count(*) FILTER (WHERE section = 'limits' AND before IS NOT NULL AND before -> 'config' IS NULL) AS moved,"
        " count(*) FILTER (WHERE after IS NULL) AS removed FROM configuration_changes",
    )
    assert found["sections"] == ["functions", "limits", "metrics", "models", "prices", "providers", "teams"]
    assert found["moved"] > 0 and found["removed"] > 0


async def test_a_limit_that_was_moved_and_then_changed_is_restored_with_its_content(engine: AsyncEngine) -> None:
    one, two = (Limit(name=name, scope={f"tag:{name}": "each"}, resource="requests", amount=1.0, per="day") for name in ("one", "two"))
    async with engine.begin() as connection:
        first = await change_configuration(connection, SYSTEM, lambda state: edited(state, limits=[one, two]))
        await change_configuration(connection, SYSTEM, lambda state: edited(state, limits=[two, one]))
        changed = msgspec.structs.replace(one, amount=7.0)
        await change_configuration(connection, SYSTEM, lambda state: edited(state, limits=[two, changed]))
        assert first.version is not None
        assert (await roll_back(connection, SYSTEM, first.version)).changed.after.snapshot.limits == (one, two)


async def test_the_empty_configuration_before_the_first_change_is_found(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        empty = (await read_state(connection)).snapshot
        await snapshots.report_snapshot(connection, empty)
        limit = Limit(name="first", scope={"tag:tenant": "each"}, resource="requests", amount=1.0, per="day")
        await change_configuration(connection, SYSTEM, lambda state: edited(state, limits=[limit]))
        found = await find_snapshot(connection, empty.hash)
    assert found is not None and found.version == 0 and found.document == {"models": {}, "providers": {}}


async def test_one_change_of_ten_thousand_rules_stores_one_rule(database: str, engine: AsyncEngine) -> None:
    limits = [
        Limit(name=f"rule {n}", scope={"tag:tenant": f"tenant {n}"}, resource="requests", amount=float(n), per="day")
        for n in range(1, 10_001)
    ]
    async with engine.begin() as connection:
        await change_configuration(connection, SYSTEM, lambda state: edited(state, limits=limits))
        before = (await read_state(connection)).snapshot
        await snapshots.report_snapshot(connection, before)
    sizes = "SELECT pg_total_relation_size('snapshots') + pg_total_relation_size('configuration_changes') AS bytes"
    (then,) = await fetch(database, sizes)
    for amount in range(5):
        async with engine.begin() as connection:
            changed = msgspec.structs.replace(limits[500], amount=amount + 20_000.0)
            await change_configuration(
                connection, SYSTEM, lambda state, new=changed: edited(state, limits=[*limits[:500], new, *limits[501:]])
            )
            await snapshots.report_snapshot(connection, (await read_state(connection)).snapshot)
    (now,) = await fetch(database, sizes)
    assert now["bytes"] - then["bytes"] < 100_000, "five whole documents have millions"
    async with engine.connect() as connection:
        found = await find_snapshot(connection, before.hash)
    assert found is not None and found.document["limits"] == list(msgspec.to_builtins(before.limits))


async def test_versions_expire_when_another_took_their_place_long_ago(
    database: str, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(configuration_expiry, "MIN_VERSIONS", 5)
    monkeypatch.setattr(configuration_expiry, "_BATCH_CHANGES", 3)
    made = await make_changes(database, 6, 30)
    # The first ten began 500 days ago and more, and the eleventh took the place of the tenth 300 days ago.
    ages = {known.version: 510 - index if index < 10 else 300 if index < 20 else 1 for index, known in enumerate(made)}
    connection = await connect(database)
    for version, days in ages.items():
        await connection.execute(
            "UPDATE configuration_versions SET at = now() - make_interval(days => $2) WHERE version = $1", version, days
        )
    await retention.delete_expired(connection, Settings(keep_configuration_days=400))
    await connection.close()
    kept = [row["version"] for row in await fetch(database, "SELECT version FROM configuration_versions ORDER BY version")]
    assert kept == [known.version for known in made[9:]], "the tenth was in force 300 days ago"
    (left,) = await fetch(database, "SELECT count(*) AS changes FROM configuration_changes WHERE version < $1", kept[0])
    assert left["changes"] == 0
    for known in made[9:]:
        await assert_is_found(engine, known)
    later = {known.state.snapshot.hash for known in made[9:]}
    async with engine.connect() as reading:
        for known in made[:8]:
            if known.state.snapshot.hash not in later:
                assert await find_snapshot(reading, known.state.snapshot.hash) is None
            with pytest.raises(UnknownVersion, match=f"The history has versions {kept[0] - 1} to "):
                await roll_back(reading, SYSTEM, known.version)


async def test_the_newest_versions_stay_however_old_and_all_of_them_with_zero_days(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration_expiry, "MIN_VERSIONS", 5)
    await make_changes(database, 7, 12)
    connection = await connect(database)
    await connection.execute("UPDATE configuration_versions SET at = now() - interval '10 years'")
    await retention.delete_expired(connection, Settings(keep_configuration_days=0))
    assert await connection.fetchval("SELECT count(*) FROM configuration_versions") == 12
    await retention.delete_expired(connection, Settings(keep_configuration_days=1))
    assert await connection.fetchval("SELECT count(*) FROM configuration_versions") == 5
    await connection.close()


async def test_a_configuration_that_is_in_force_again_is_kept_as_the_newer_version(database: str, engine: AsyncEngine) -> None:
    made = await make_changes(database, 8, 4)
    first = made[0]
    async with engine.begin() as connection:
        restored = (await roll_back(connection, SYSTEM, first.version)).changed
        await snapshots.report_snapshot(connection, (await read_state(connection)).snapshot)
        found = await find_snapshot(connection, first.state.snapshot.hash)
    assert found is not None and found.version == restored.version


async def test_what_a_process_of_the_previous_version_stored_meanwhile_becomes_a_version_too(database: str, engine: AsyncEngine) -> None:
    (made,) = await make_changes(database, 10, 1, report=False)
    hash = made.state.snapshot.hash
    await fetch(database, "INSERT INTO snapshots (hash, document) VALUES ($1, $2::jsonb)", hash, json.dumps(made.document))
    await assert_is_found(engine, made)
    async with engine.begin() as connection:
        await snapshots.report_snapshot(connection, made.state.snapshot)
    (row,) = await fetch(database, "SELECT document, version FROM snapshots")
    assert (row["document"], row["version"]) == (None, made.version)
    await assert_is_found(engine, made)


async def test_documents_of_an_earlier_version_become_versions_by_the_migration(blank_database: str) -> None:
    await migrate_to(blank_database, "0052")
    made = await make_changes(blank_database, 9, 25, report=False)
    connection = await connect(blank_database)
    try:
        for known in made:
            values = known.state.snapshot.hash, json.dumps(known.document)
            await connection.execute("INSERT INTO snapshots (hash, document) VALUES ($1, $2::jsonb) ON CONFLICT DO NOTHING", *values)
        await connection.execute("""INSERT INTO snapshots VALUES ('empty', '{"models": {}, "providers": {}}')""")
        await connection.execute("""INSERT INTO snapshots VALUES ('foreign', '{"models": {"m": {"words": "of old"}}, "providers": {}}')""")
        await migrate(blank_database)
        rows = {row["hash"]: row for row in await connection.fetch("SELECT hash, document, version FROM snapshots")}
        newest = await connection.fetchval("SELECT max(version) FROM configuration_versions")
    finally:
        await connection.close()
    assert rows["foreign"]["version"] is None and json.loads(rows["foreign"]["document"])["models"] == {"m": {"words": "of old"}}
    assert rows["empty"]["version"] == 0 and rows["empty"]["document"] is None
    assert rows[made[-1].state.snapshot.hash]["version"] == newest
    engine = create_database_engine(blank_database)
    try:
        for known in made:
            assert rows[known.state.snapshot.hash]["document"] is None
            await assert_is_found(engine, known)
        async with engine.connect() as reading:
            assert (found := await find_snapshot(reading, "foreign")) is not None and found.version is None
            assert found.document == {"models": {"m": {"words": "of old"}}, "providers": {}}
            assert document_of(await read_state(reading)) == made[-1].document
    finally:
        await engine.dispose()


async def test_documents_that_match_no_version_expire_like_the_others(database: str) -> None:
    now = datetime.datetime.now(datetime.UTC)
    connection = await connect(database)
    for hash, days in (("old", 900), ("served until 300 days ago", 800), ("newer", 300)):
        await connection.execute("INSERT INTO snapshots VALUES ($1, '{}', $2)", hash, now - datetime.timedelta(days=days))
    await retention.delete_expired(connection, Settings(keep_configuration_days=400))
    assert [row["hash"] for row in await connection.fetch("SELECT hash FROM snapshots ORDER BY 1")] == [
        "newer",
        "served until 300 days ago",
    ]
    await connection.close()
