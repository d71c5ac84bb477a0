"""Usage: the sums that limits read, what /v1/usage reports to the holder of a key, and whether the spool has been written."""

import asyncio
import datetime
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import asyncpg
import httpx2
import msgspec
import pytest
from alembic import command
from litestar import Litestar
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.callers import usage as usage_api
from app.api.callers.authentication import authentication_by_key
from app.api.callers.exception_handlers import HANDLERS
from app.domain import uuid7
from app.domain.callers import Caller
from app.recording.spool.open_segment import OpenSegment
from app.recording.spool.segment_format import EXCHANGE, PART_OF_RESPONSE, pack_exchange, pack_part
from app.recording.spool.spool import Spool
from app.recording.spool.spool_progress import wait_until_stored
from app.settings import Settings
from app.store.configuration.snapshot_cache import SnapshotCache
from app.store.postgres.database import connect, create_database_engine
from app.store.schema.migrate import alembic_config, migrate
from app.store.teams import keys
from app.store.usage import usage
from app.store.usage.usage import UsedAmounts
from providers.canonical.chat import Usage
from tests.support.processes.postgres import Postgres
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import drain, fetch, running_writer
from tests.support.spooled_exchanges import TEAM, make_exchange, spool_exchange

HOUR = datetime.timedelta(hours=1)
# A day that is over, in the months for which records are kept.
DAY = datetime.datetime.now(datetime.UTC).replace(hour=0, minute=0, second=0, microsecond=0) - datetime.timedelta(days=3)


class UsageDatabase:
    """A database with two teams and three keys (blue has two), and what they used on DAY."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database: AsyncEngine = create_database_engine(settings.database_url)
        self.snapshot_cache = SnapshotCache(settings, self.database, "gateway-0")
        self.keys: dict[str, str] = {}
        self.callers: dict[str, Caller] = {}

    async def create_keys(self) -> None:
        for name, team in (("one", "blue"), ("two", "blue"), ("three", "green")):
            self.keys[name] = await keys.create_key(self.settings.database_url, team, name=name)
        await self.snapshot_cache.start()
        for name, key in self.keys.items():
            caller = await self.snapshot_cache.keys.find(key)
            assert caller is not None
            self.callers[name] = caller

    def record_usage(self, spool: Spool, key: str, at: datetime.datetime, **changes: Any) -> None:
        caller, at_us = self.callers[key], int(at.timestamp() * 1_000_000)
        fields = {"id": uuid7.mint(at_us), "received_us": at_us, "key_id": caller.key_id, "team_id": caller.team_id}
        spool_exchange(spool, b"", b"", **fields, **changes)

    def key_prefix(self, key: str) -> str:
        return "-".join(self.keys[key].split("-")[:2])

    async def used(self, scope: dict[str, str], since: datetime.datetime) -> UsedAmounts:
        async with self.database.connect() as connection:
            return await usage.read_used(connection, scope, since)

    async def get(self, key: str | None, path: str = "/v1/usage", **params: str) -> httpx2.Response:
        """Sends a request through the routes of the service."""
        route = usage_api.routes(self.database, authentication_by_key(self.snapshot_cache))
        app = Litestar([route], exception_handlers=HANDLERS, openapi_config=None, logging_config=None)
        headers = {"authorization": f"Bearer {self.keys[key]}"} if key else {}
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(cast("Any", app)), base_url="http://narthex") as client:
            return await client.get(path, params=params or None, headers=headers)


@pytest.fixture(scope="module")
async def usage_database(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[UsageDatabase]:
    await postgres.execute("CREATE DATABASE usage_sums TEMPLATE migrated")
    home = tmp_path_factory.mktemp("usage")
    usage_database = UsageDatabase(Settings(home=home, database_url=postgres.database_url("usage_sums"), drain_timeout_s=GENEROUS_S))
    await usage_database.create_keys()
    spool = Spool(home / "spool", usage_database.settings)
    full = {"usage": Usage(100, 10, 40, 5), "charged_input": 100, "charged_output": 12}
    usage_database.record_usage(spool, "one", DAY, model="a", cost_microusd=1_500_000, **full)
    usage_database.record_usage(spool, "one", DAY + 0.75 * HOUR, model="b", cost_microusd=250_000, tags={"tenant": "x"}, **full)
    usage_database.record_usage(spool, "one", DAY + 1 * HOUR, model="a", outcome="failed", status=502, cost_microusd=0)
    usage_database.record_usage(spool, "two", DAY + 23 * HOUR, model="narthex::model_name::a", tags={"tenant": "x"}, **full)
    usage_database.record_usage(spool, "three", DAY + 5 * HOUR, model="a", cost_microusd=7, tags={"tenant": "y"}, **full)
    spool.close()
    await drain(usage_database.settings)
    yield usage_database
    await usage_database.snapshot_cache.stop()
    await usage_database.database.dispose()


# --- the sums that limits read


async def test_usage_is_summed_by_key_team_model_and_overall(usage_database: UsageDatabase):
    one, two, three = (usage_database.key_prefix(name) for name in ("one", "two", "three"))
    assert await usage_database.used({"key": one}, DAY) == UsedAmounts(3, 200, 24, 1_750_000)
    assert await usage_database.used({"key": two}, DAY) == UsedAmounts(1, 100, 12, 0)
    assert await usage_database.used({"team": "blue"}, DAY) == UsedAmounts(4, 300, 36, 1_750_000)
    assert await usage_database.used({"team": "blue", "model": "b"}, DAY) == UsedAmounts(1, 100, 12, 250_000)
    assert await usage_database.used({"key": three, "team": "blue"}, DAY) == UsedAmounts()
    assert await usage_database.used({"model": "a"}, DAY) == UsedAmounts(4, 300, 36, 1_500_007)
    assert await usage_database.used({"all": "each"}, DAY) == UsedAmounts(5, 400, 48, 1_750_007)
    assert await usage_database.used({"team": "nobody"}, DAY) == UsedAmounts()


async def test_model_usage_includes_requests_under_its_aliases(usage_database: UsageDatabase):
    assert await usage_database.used({"model": "a", "key": usage_database.key_prefix("two")}, DAY) == UsedAmounts(1, 100, 12, 0)
    scope = {"model": "a", "key": usage_database.key_prefix("two"), "tag:tenant": "x"}
    assert await usage_database.used(scope, DAY) == UsedAmounts(1, 100, 12, 0)


async def test_usage_is_summed_by_tag(usage_database: UsageDatabase):
    assert await usage_database.used({"tag:tenant": "x"}, DAY) == UsedAmounts(2, 200, 24, 250_000)
    assert await usage_database.used({"tag:tenant": "x", "key": usage_database.key_prefix("two")}, DAY) == UsedAmounts(1, 100, 12, 0)
    assert await usage_database.used({"tag:tenant": "x"}, DAY + HOUR) == UsedAmounts(1, 100, 12, 0)
    assert await usage_database.used({"tag:other": "x"}, DAY) == UsedAmounts()


async def test_usage_since_is_exact_within_an_hour(usage_database: UsageDatabase):
    """A day in India begins half an hour before or after a full hour of UTC."""
    of_one = {"key": usage_database.key_prefix("one")}
    moments = (-0.5, 0.0, 0.25, 0.75, 0.75000001, 1.0, 1.5)
    usages = [await usage_database.used(of_one, (DAY + moment * HOUR).astimezone(datetime.timezone(5.5 * HOUR))) for moment in moments]
    assert [(each.requests, each.cost_microusd) for each in usages] == [
        (3, 1_750_000),
        (3, 1_750_000),
        (2, 250_000),
        (2, 250_000),
        (1, 0),
        (1, 0),
        (0, 0),
    ]


async def test_unknown_usage_dimension_raises_value_error(usage_database: UsageDatabase):
    with pytest.raises(ValueError, match="'user'"):
        await usage_database.used({"user": "x"}, DAY)


# --- what /v1/usage reports


def day(at: datetime.datetime) -> str:
    return at.date().isoformat()


async def test_key_sees_its_own_usage_and_its_teams(usage_database: UsageDatabase):
    span = {"from": day(DAY), "to": day(DAY + 24 * HOUR)}
    own = (await usage_database.get("one", **span)).json()
    assert own["scope"] == {"key": usage_database.key_prefix("one")}
    assert (own["from"], own["to"]) == (DAY.isoformat(), (DAY + 24 * HOUR).isoformat())
    assert own["total"] == {
        "requests": 3,
        "failed": 1,
        "input_tokens": 200,
        "output_tokens": 20,
        "cached_tokens": 80,
        "reasoning_tokens": 10,
        "charged_input": 200,
        "charged_output": 24,
        "cost_usd": 1.75,
        "unpriced": 0,
    }
    assert own["data"] == [own["total"]]
    team = (await usage_database.get("one", scope="team", **span)).json()
    assert team["scope"] == {"team": "blue"} and (team["total"]["requests"], team["total"]["unpriced"]) == (4, 1)
    assert (await usage_database.get("three", scope="team", **span)).json()["total"]["cost_usd"] == 0.000007


async def test_usage_is_grouped_and_ordered_by_requested_dimensions(usage_database: UsageDatabase):
    span = {"from": day(DAY), "to": day(DAY + 24 * HOUR), "scope": "team"}
    body = (await usage_database.get("one", group_by="hour, model", **span)).json()
    rows = [(row["hour"], row["model"], row["requests"]) for row in body["data"]]
    hours = [(DAY + at * HOUR).isoformat() for at in (0, 0, 1, 23)]
    assert rows == list(zip(hours, ("a", "b", "a", "a"), (1, 1, 1, 1), strict=True))
    by_key = (await usage_database.get("one", group_by="key", **span)).json()["data"]
    assert {row["key"]: row["requests"] for row in by_key} == {usage_database.key_prefix("one"): 3, usage_database.key_prefix("two"): 1}
    by_day = (await usage_database.get("one", group_by="day", **span)).json()["data"]
    assert [(row["day"], row["requests"]) for row in by_day] == [(DAY.isoformat(), 4)]
    for name in ("hour", "day", "month", "model", "key", "day,model,key"):
        body = (await usage_database.get("one", group_by=name, **span)).json()
        assert sum(row["requests"] for row in body["data"]) == body["total"]["requests"] == 4, name


async def test_usage_days_follow_the_requested_time_zone(usage_database: UsageDatabase):
    """A day in Tokyo ends nine hours before that of UTC."""
    span = {"scope": "team", "time_zone": "Asia/Tokyo", "group_by": "day"}
    body = (await usage_database.get("one", **{"from": day(DAY), "to": day(DAY + 48 * HOUR), **span})).json()
    assert [(row["day"], row["requests"]) for row in body["data"]] == [
        (f"{day(DAY)}T00:00:00+09:00", 3),
        (f"{day(DAY + 24 * HOUR)}T00:00:00+09:00", 1),
    ]
    assert body["from"] == f"{day(DAY)}T00:00:00+09:00"


async def test_usage_times_may_carry_utc_offsets(usage_database: UsageDatabase):
    begin = (DAY + HOUR).astimezone(datetime.timezone(2 * HOUR)).isoformat()
    for begin_text in (begin, begin.replace("+", " "), (DAY + HOUR).isoformat().replace("+00:00", "Z"), (DAY + HOUR).isoformat()[:19]):
        body = (await usage_database.get("one", **{"from": begin_text, "to": day(DAY + 24 * HOUR)})).json()
        assert body["total"]["requests"] == 1, begin_text


async def test_usage_defaults_to_this_month_until_now(usage_database: UsageDatabase):
    body = (await usage_database.get("one")).json()
    begin, end = (datetime.datetime.fromisoformat(body[name]) for name in ("from", "to"))
    now = datetime.datetime.now(datetime.UTC)
    assert (begin.day, begin.hour) == (1, 0) and begin <= now < end <= now + HOUR


@pytest.mark.parametrize(
    ("params", "param", "message"),
    [
        ({"scope": "all"}, "scope", "key or team"),
        ({"team": "green"}, "team", "Unknown parameter 'team'"),
        ({"from": "yesterday"}, "from", "ISO 8601"),
        ({"from": "2026-11-01T08:30:00Z"}, "from", "a full hour"),
        ({"from": "2026-11-02", "to": "2026-11-01"}, "to", "before"),
        ({"from": "2026-11-02", "to": "2026-11-02"}, "to", "before"),
        ({"from": "2024-11-02", "to": "2026-11-02"}, "from", "at most 400 days"),
        ({"from": "2026-09-02", "to": "2026-11-02", "group_by": "hour"}, "from", "at most 31 days"),
        ({"group_by": "minute"}, "group_by", "hour, day, month, model, key"),
        ({"group_by": "day,hour"}, "group_by", "one"),
        ({"group_by": "model,model"}, "group_by", "once"),
        ({"time_zone": "Mars"}, "time_zone", "no time zone 'Mars'"),
        ({"time_zone": "Asia/Kolkata", "from": "2026-11-01T00:00:00Z", "to": "2026-11-02T00:00:00Z"}, "time_zone", "do not begin"),
        ({"time_zone": "localtime"}, "time_zone", "no time zone"),
        ({"from": "0001-01-01T00:00:00+14:00"}, "from", "ISO 8601"),
        ({"from": "0001-01-01", "to": "0001-01-02", "time_zone": "America/New_York"}, "from", "in the years"),
        ({"from": "9999-12-31T23:00:00Z"}, "from", "in the years"),
    ],
)
async def test_invalid_usage_query_is_refused_by_parameter(usage_database: UsageDatabase, params: dict[str, str], param: str, message: str):
    answer = await usage_database.get("one", **params)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param) and message in error["message"]
    assert answer.headers["x-request-id"]


async def test_key_without_the_usage_route_sees_no_usage(usage_database: UsageDatabase):
    usage_database.keys["narrow"] = await keys.create_key(usage_database.settings.database_url, "blue", routes=["/v1/models"])
    usage_database.keys["wide"] = await keys.create_key(usage_database.settings.database_url, "blue", routes=["/v1/usage"])
    assert [(await usage_database.get(name)).status_code for name in ("narrow", "wide")] == [403, 200]


async def test_usage_requires_a_key_and_refuses_repeated_parameters(usage_database: UsageDatabase):
    answer = await usage_database.get(None)
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")
    twice = await usage_database.get("one", "/v1/usage?scope=key&scope=team")
    assert twice.status_code == 400 and "several times" in twice.text


# --- records from before the usage table


async def test_migration_sums_up_usage_recorded_before(blank_database: str, tmp_path: Path):
    database_engine = create_database_engine(blank_database)
    async with database_engine.connect() as connection:
        await connection.run_sync(lambda sync_connection: upgrade(sync_connection, "0003"))
        await connection.commit()
    await database_engine.dispose()
    before = await connect(blank_database)
    await before.execute("CREATE TABLE inferences_of_old PARTITION OF inferences DEFAULT")
    await before.executemany(
        """INSERT INTO inferences (id, episode_id, received_at, team_id, key_id, route, model, streamed, status, outcome, input_tokens,
            output_tokens, duration_us, snapshot) VALUES ($1, $1, $2, $3, $3, '', 'm', false, 200, $4, $5, 2, 1, '')""",
        [
            (uuid7.mint(int(at.timestamp() * 1_000_000)), at, TEAM, outcome, tokens)
            for minutes, outcome, tokens in ((0, "answered", 5), (59, "failed", None), (60, "answered", 7))
            for at in [DAY + minutes * HOUR / 60]
        ],
    )
    await before.close()
    await migrate(blank_database)
    database_engine = create_database_engine(blank_database)
    async with database_engine.connect() as connection:
        rows = await usage.list_usage(connection, usage.UsageQuery(None, TEAM, DAY, DAY + 24 * HOUR, ("hour",)), 100)
        columns = ("hour", "requests", "failed", "input_tokens", "charged_output", "unpriced")
        assert [tuple(row[name] for name in columns) for row in rows] == [(DAY, 2, 1, 5, 4, 2), (DAY + HOUR, 1, 0, 7, 2, 1)]
        assert await usage.read_used(connection, {"all": "each"}, DAY + HOUR / 2) == UsedAmounts(2, 7, 4, 0)
    await database_engine.dispose()
    # A writer of an earlier version, which keeps no sums, fails on its positions, so it stores nothing that the sums would lack.
    with pytest.raises(asyncpg.UndefinedColumnError):
        await fetch(blank_database, "SELECT segment, position FROM spool_positions")


def upgrade(connection: Connection, revision: str) -> None:
    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


# --- whether the spool has been written


@pytest.fixture
async def settings(database: str, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, database_url=database, writer_batch_ms=10, spool_reserve_bytes=64 * 1024, drain_timeout_s=GENEROUS_S)


@pytest.fixture
async def database_engine(settings: Settings) -> AsyncGenerator[AsyncEngine]:
    engine = create_database_engine(settings.database_url)
    yield engine
    await engine.dispose()


async def test_empty_spool_counts_as_written(settings: Settings, database_engine: AsyncEngine):
    (settings.home / "spool").mkdir()
    assert await wait_until_stored(settings.home / "spool", database_engine, timeout_s=0)
    spool = Spool(settings.home / "spool", settings)
    assert await wait_until_stored(settings.home / "spool", database_engine, timeout_s=0)
    spool.close()


async def test_spool_written_waits_for_finished_records_but_not_for_running_ones(settings: Settings, database_engine: AsyncEngine):
    folder = settings.home / "spool"
    spool = Spool(folder, settings)
    spool_exchange(spool, b"request", b"response")
    began = time.monotonic()
    assert not await wait_until_stored(folder, database_engine, timeout_s=0.2)
    assert 0.2 <= time.monotonic() - began < GENEROUS_S
    long = make_exchange()
    spool_record = spool.open(long.id, "full")
    async with running_writer(settings):
        assert await wait_until_stored(folder, database_engine, timeout_s=GENEROUS_S)
        spool_record.append_response(b"x" * 200_000)  # spilled, so its parts are in the segment
        assert await wait_until_stored(folder, database_engine, timeout_s=0)
        spool_record.close(long)
        assert await wait_until_stored(folder, database_engine, timeout_s=GENEROUS_S)
        async with database_engine.connect() as connection:
            assert (await usage.read_used(connection, {"all": "each"}, DAY)).requests == 2
    spool.close()


async def test_removed_segment_counts_as_written(settings: Settings, database_engine: AsyncEngine):
    folder = settings.home / "spool"
    spool = Spool(folder, settings)
    spool_exchange(spool, b"request", b"response")
    spool.close()
    waiting = asyncio.create_task(wait_until_stored(folder, database_engine, timeout_s=GENEROUS_S))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await drain(settings)
    assert not list(folder.glob("*.spool")) and await waiting


async def test_reserve_segment_counts_as_unwritten_only_with_a_finished_record(settings: Settings, database_engine: AsyncEngine):
    (settings.home / "spool").mkdir()
    reserve = OpenSegment(settings.home / "spool", 50_000)
    assert await wait_until_stored(settings.home / "spool", database_engine, timeout_s=0)
    reserve.append(PART_OF_RESPONSE, 0, pack_part(b"\1" * 16, 0) + b"half an answer")
    assert await wait_until_stored(settings.home / "spool", database_engine, timeout_s=0)
    meta = msgspec.msgpack.encode(make_exchange())
    reserve.append(EXCHANGE, 0, pack_exchange(len(meta), 0, 0) + meta)
    assert not await wait_until_stored(settings.home / "spool", database_engine, timeout_s=0)
    async with running_writer(settings):
        assert await wait_until_stored(settings.home / "spool", database_engine, timeout_s=GENEROUS_S)
    reserve.retire()


async def test_truncated_record_counts_as_unwritten_until_drained(settings: Settings, database_engine: AsyncEngine):
    (settings.home / "spool").mkdir()
    segment = OpenSegment(settings.home / "spool")
    meta = msgspec.msgpack.encode(make_exchange())
    segment.append(EXCHANGE, 0, pack_exchange(len(meta), 0, 0) + meta)
    with segment.path.open("r+b") as file:
        file.truncate(segment.size - 5)
    assert not await wait_until_stored(settings.home / "spool", database_engine, timeout_s=0)
    segment.retire()
    async with running_writer(settings):
        await wait_until(lambda: not segment.path.exists())
        assert await wait_until_stored(settings.home / "spool", database_engine, timeout_s=0)
