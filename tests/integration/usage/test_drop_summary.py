"""The summary of which callers lose which fields in recorded inferences, over HTTP and as a command."""

import datetime
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import text
from sqlalchemy.dialects import postgresql

from app.domain import uuid7
from app.domain.callers import Caller
from app.domain.errors import InvalidKeyField
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.keys.callers import find_callers
from app.store.keys.key_format import hash_key, parse_prefix
from app.store.postgres.database import connect, create_database_engine
from app.store.records.drop_summary import DropRow, drop_summary_query, summarize_drops
from app.store.teams import keys
from tests.support.processes.postgres import Postgres
from tests.support.processes.service import Service
from tests.support.processes.writer_process import drain
from tests.support.scripted_engine import ScriptedEngine
from tests.support.spooled_exchanges import spool_exchange

PATH = "/admin/v1/dropped"
CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]
DAY = datetime.timedelta(days=1)
NOON = datetime.datetime.now(datetime.UTC).replace(hour=12, minute=0, second=0, microsecond=0) - 3 * DAY
FIRST = NOON - DAY


class Records:
    """A database with the requests of two teams, of which some lost fields."""

    def __init__(self, settings: Settings, prefixes: dict[str, str]) -> None:
        self.settings = settings
        self.database = create_database_engine(settings.database_url)
        self.prefixes = prefixes

    async def summary(self, since: datetime.datetime = FIRST - DAY, limit: int = 100, **scope: str) -> list[DropRow]:
        async with self.database.connect() as connection:
            return await summarize_drops(connection, since, NOON + DAY, scope, limit)


@pytest.fixture(scope="module")
async def records(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Records]:
    await postgres.execute("CREATE DATABASE drop_summary TEMPLATE migrated")
    home = tmp_path_factory.mktemp("drops")
    settings = Settings(home=home, database_url=postgres.database_url("drop_summary"))
    connection = await connect(settings.database_url)
    made = {
        name: await keys.create_key(settings.database_url, team) for name, team in (("one", "blue"), ("two", "blue"), ("three", "green"))
    }
    callers = await find_callers(connection, {hash_key(key): parse_prefix(key) or "" for key in made.values()})
    gone = Caller("00000000-0000-7000-8000-000000000001", "00000000-0000-7000-8000-000000000002", "gone", "full")
    spool = Spool(home / "spool", settings)

    def record(name: str, at: datetime.datetime, *dropped: str, model: str = "m") -> None:
        caller = gone if name == "gone" else callers[hash_key(made[name])]
        at_us = int(at.timestamp() * 1_000_000)
        fields: Any = {"id": uuid7.mint(at_us), "received_us": at_us, "key_id": caller.key_id, "team_id": caller.team_id}
        spool_exchange(spool, b"", b"", model=model, dropped=dropped, **fields)

    record("one", FIRST, "seed")
    record("one", NOON, "seed", "messages[0].name", "messages[2].name")
    record("one", NOON - DAY / 2, "seed", model="narthex::model_name::m")
    record("one", NOON, "seed", model="other")
    record("one", NOON)
    record("two", NOON, "messages[7].name")
    record("three", NOON, "seed")
    record("gone", NOON, "stop")
    spool.close()
    await drain(settings)
    await connection.close()
    records = Records(settings, {name: "-".join(key.split("-")[:2]) for name, key in made.items()})
    yield records
    await records.database.dispose()


def sums(rows: list[DropRow]) -> set[tuple[str | None, str | None, str, str, int]]:
    return {(row.team, row.key, row.model, row.field, row.requests) for row in rows}


async def test_fields_are_summed_up_by_team_key_and_model(records: Records):
    one, two, three = (records.prefixes[name] for name in ("one", "two", "three"))
    rows = await records.summary()
    assert sums(rows) == {
        ("blue", one, "m", "seed", 3),
        ("blue", one, "m", "messages[].name", 1),
        ("blue", one, "other", "seed", 1),
        ("blue", two, "m", "messages[].name", 1),
        ("green", three, "m", "seed", 1),
        (None, None, "m", "stop", 1),
    }
    assert (rows[0].requests, rows[0].first_at, rows[0].last_at) == (3, FIRST.isoformat(), NOON.isoformat()), "the most frequent first"
    assert await records.summary(limit=1) == rows[:1] and len(await records.summary(limit=4)) == 4


async def test_summary_is_of_a_period_and_a_scope(records: Records):
    one, three = records.prefixes["one"], records.prefixes["three"]
    assert sums(await records.summary(NOON - DAY / 4, team="blue", model="m", key=one)) == {
        ("blue", one, "m", "seed", 1),
        ("blue", one, "m", "messages[].name", 1),
    }
    assert sums(await records.summary(key=three.removeprefix("nx-"))) == {("green", three, "m", "seed", 1)}
    assert sums(await records.summary(model="other")) == {("blue", one, "other", "seed", 1)}
    assert await records.summary(NOON + DAY / 2) == []
    with pytest.raises(InvalidKeyField, match="There is no team 'nobody'"):
        await records.summary(team="nobody")


async def test_summary_reads_the_partitions_of_its_days_alone(records: Records):
    compiled = drop_summary_query(NOON, NOON + datetime.timedelta(hours=1), {}, 10).compile(
        dialect=postgresql.dialect(),  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        compile_kwargs={"literal_binds": True},
    )
    async with records.database.connect() as connection:
        plan = "\n".join(await connection.scalars(text("EXPLAIN " + str(compiled).replace(":", "\\:"))))
        partitions = await connection.scalar(text("SELECT count(*) FROM pg_inherits WHERE inhparent = 'inferences'::regclass"))
    assert f"inferences_{NOON:%Y%m%d}" in plan and f"inferences_{FIRST:%Y%m%d}" not in plan and (partitions or 0) > 1


async def test_dropped_fields_of_a_team_show_up_over_http_and_as_a_command(service: Service, engine: ScriptedEngine):
    made = json.loads(service.run("keys", "create", "--team", "losing", "--drop", "guided_regex", "--json").stdout)
    async with service.client(headers={"authorization": f"Bearer {made['key']}"}) as caller:
        for model in ("scripted", "narthex::model_name::scripted"):
            answer = await caller.post(CHAT, json={"model": model, "messages": HI, "guided_regex": "a+", "guided_decoding_backend": "x"})
            assert answer.status_code == 200, answer.text
            await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    async with service.admin_client() as admin:
        found = (await admin.get(PATH, params={"team": "losing"})).json()
        page = (await admin.get(PATH, params={"key": made["prefix"], "model": "scripted", "limit": 1})).json()
    caller_fields = {"team": "losing", "key": made["prefix"], "model": "scripted"}
    assert [{**each, "first_at": "", "last_at": ""} for each in found["data"]] == [
        {**caller_fields, "field": field, "requests": 2, "first_at": "", "last_at": ""}
        for field in ("guided_decoding_backend", "guided_regex")
    ]
    assert found["since"] < found["data"][0]["first_at"] < found["data"][0]["last_at"] < found["until"] and found["has_more"] is False
    assert datetime.datetime.fromisoformat(found["until"]) - datetime.datetime.fromisoformat(found["since"]) == 7 * DAY
    assert page["data"] == found["data"][:1] and page["has_more"] is True
    command = json.loads(service.run("dropped", "--team", "losing", "--last", "1h", "--json").stdout)
    assert command["dropped"] == found["data"] and command["more"] is False
    limited = service.run("dropped", "--key", made["prefix"], "--limit", "1")
    assert "guided_decoding_backend" in limited.stdout and "guided_regex" not in limited.stdout and "There are more" in limited.stderr
    assert "There is no team 'nobody', and no record of one" in service.run("dropped", "--team", "nobody").stderr


@pytest.mark.parametrize(
    ("params", "param", "expected"),
    [
        ({"since": "2026-11-02T00:00:00Z", "until": "2026-11-02T00:00:00Z"}, "since", "before `until`"),
        ({"since": "2026-10-01T00:00:00", "until": "2026-11-02T00:00:00"}, "since", "31 days at most"),
        ({"until": "0001-01-01T00:00:00Z"}, "until", "must be after 1970"),
        ({"since": "9999-12-31T23:59:59-12:00"}, "since", "before 9000"),
        ({"since": "yesterday"}, "since", "`since`"),
        ({"key": "mine"}, "key", "public part of a key"),
        ({"team": "a\0b"}, "team", "NUL"),
        ({"limit": "1001"}, "limit", "`limit`"),
        ({"team": ""}, "team", "empty"),
        ({"teams": "a"}, "teams", "Unknown parameter"),
    ],
)
async def test_bad_parameter_is_a_400_that_names_it(service: Service, params: dict[str, str], param: str, expected: str):
    async with service.admin_client() as admin:
        answer = await admin.get(PATH, params=params)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param) and expected in answer.json()["error"]["message"], (
        answer.text
    )


async def test_summary_is_for_admin_keys_only(client: httpx2.AsyncClient):
    assert (await client.get(PATH)).status_code == 403


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(("--last", "32d"), "31d"), (("--since", "2099-01-01"), "31d"), (("--key", "mine"), "public part"), (("--limit", "0"), "limit")],
)
def test_bad_option_is_refused(service: Service, arguments: tuple[str, ...], expected: str):
    done = service.run("dropped", *arguments)
    assert done.returncode == 2 and expected in done.stderr


def test_summary_of_a_database_without_partitions_is_empty(database: str, tmp_path: Path, service: Service):
    environment = {**service.environment, "DATABASE_URL": database, "NARTHEX_HOME": str(tmp_path)}
    done = Service(tmp_path, service.url, service.process, environment).run("dropped", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["dropped"] == [], done.stderr
