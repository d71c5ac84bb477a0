"""Analytics: sums and quantiles by time and group, equal to a scan of all inferences; over HTTP and as a command."""

import datetime
import json
import random
import uuid
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.keys.callers import find_callers
from app.store.keys.key_format import hash_key, parse_prefix
from app.store.postgres.database import connect, create_database_engine
from app.store.teams import keys
from app.store.usage.analytics import read_analytics
from app.store.usage.analytics_query import make_query
from app.store.usage.analytics_rows import Analytics
from app.store.usage.sketches import RELATIVE_ERROR
from providers.canonical.chat import Usage
from tests.support.processes.postgres import Postgres
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import drain, fetch
from tests.support.spooled_exchanges import spool_exchange

PATH = "/admin/v1/analytics"
DAY = datetime.timedelta(days=1)
NOW = datetime.datetime.now(datetime.UTC)


class Records:
    """A database with the requests of two teams in the last ten days."""

    def __init__(self, settings: Settings, rows: list[Any]) -> None:
        self.settings = settings
        self.database = create_database_engine(settings.database_url)
        self.rows = rows  # of inferences, each with the names of its team and key

    async def read(self, *, only_teams: list[str] | None = None, **changes: Any) -> Analytics:
        fields: dict[str, Any] = {"since": NOW - 9.5 * DAY, "until": NOW - 0.5 * DAY, "now": NOW}
        fields |= {"keep_minutes_days": 7, "keep_hours_days": 400, "limit": 1000, **changes}
        query = make_query(**fields)
        async with self.database.begin() as connection:
            return await read_analytics(connection, query, only_teams=only_teams)

    def scan(self, found: Analytics) -> list[Any]:
        begin, end = (datetime.datetime.fromisoformat(each) for each in (found.since, found.until))
        return [row for row in self.rows if begin <= row["received_at"] < end]


@pytest.fixture(scope="module")
async def records(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Records]:
    await postgres.execute("CREATE DATABASE analytics TEMPLATE migrated")
    home = tmp_path_factory.mktemp("analytics")
    settings = Settings(home=home, database_url=postgres.database_url("analytics"))
    made = [await keys.create_key(settings.database_url, team) for team in ("blue", "blue", "green")]
    connection = await connect(settings.database_url)
    found = await find_callers(connection, {hash_key(key): parse_prefix(key) or "" for key in made})
    callers = [found[hash_key(key)] for key in made]
    spool = Spool(home / "spool", settings)
    chance = random.Random(5)
    for _ in range(1500):
        at_us = int((NOW - chance.random() * 10 * DAY).timestamp() * 1_000_000)
        caller = chance.choice(callers)
        failed = chance.random() < 0.1
        fields: Any = {
            **{"id": uuid7.mint(at_us), "received_us": at_us, "key_id": caller.key_id, "team_id": caller.team_id},
            **{"model": chance.choice(("a", "b", "narthex::model_name::a")), "served_provider": chance.choice(("gpu", "host"))},
            **{"duration_us": int(chance.lognormvariate(13, 1)), "usage": Usage(chance.randrange(500), 7)},
            **{"cost_microusd": chance.choice((None, 5, 1000)), "end_user": chance.choice((None, "ann", "bob"))},
            **{"tags": chance.choice(({}, {"tenant": "x"}, {"tenant": "y,z"}))},
            **({"status": 502, "outcome": "failed", "error": "UpstreamFailed"} if failed else {}),
        }
        spool_exchange(spool, b"", b"", **fields)
    spool.close()
    await drain(settings)
    rows = await connection.fetch(
        "SELECT inferences.*, teams.name AS team, 'nx-' || keys.prefix AS key FROM inferences"
        " JOIN teams ON teams.id = team_id JOIN keys ON keys.id = key_id"
    )
    await connection.close()
    records = Records(settings, [dict(row) | {"model": row["model"].rpartition("::")[2]} for row in rows])
    yield records
    await records.database.dispose()


async def test_groups_are_those_of_a_scan(records: Records):
    found = await records.read(group_by="team,model,status")
    rows = records.scan(found)
    counted = Counter((row["team"], row["model"], str(row["status"])) for row in rows)
    assert {tuple(row.group.values()): row.requests for row in found.data} == counted
    assert [row.requests for row in found.data] == sorted(counted.values(), reverse=True)
    (total,) = (await records.read()).data
    assert (total.requests, total.failed) == (len(rows), sum(row["outcome"] == "failed" for row in rows))
    assert total.cost_microusd == sum(row["cost_microusd"] or 0 for row in rows)
    assert total.unpriced == sum(row["cost_microusd"] is None for row in rows)
    assert total.input_tokens == sum(row["input_tokens"] for row in rows)
    assert total.max_duration_us == max(row["duration_us"] for row in rows)
    assert total.mean_duration_us == sum(row["duration_us"] for row in rows) // len(rows)


@pytest.mark.parametrize(("interval", "time_zone"), [("hour", "UTC"), ("day", "UTC"), ("week", "UTC"), ("day", "America/New_York")])
async def test_series_are_those_of_a_scan(records: Records, interval: Any, time_zone: str):
    found = await records.read(interval=interval, time_zone=time_zone, limit=10, group_by="provider")
    starts = {row.time for row in found.data}
    counted: Counter[tuple[str, str]] = Counter()
    ordered = sorted((datetime.datetime.fromisoformat(each or "") for each in starts), reverse=True)
    for row in records.scan(found):
        start = next(each for each in ordered if each <= row["received_at"])
        counted[start.isoformat(), row["served_provider"]] += 1
    assert {(row.time, row.group["provider"]): row.requests for row in found.data} == counted
    assert [row.time for row in found.data] == sorted(row.time or "" for row in found.data)


async def test_subjects_and_filters(records: Records):
    found = await records.read(group_by="tag:tenant,model", filters={"team": "blue", "status": "2xx"})
    rows = [row for row in records.scan(found) if row["team"] == "blue" and row["status"] == 200]
    counted = Counter((json.loads(row["tags"])["tenant"], row["model"]) for row in rows if row["tags"])
    assert {tuple(row.group.values()): row.requests for row in found.data} == counted
    (ann,) = (await records.read(filters={"end_user": "ann"})).data
    assert ann.requests == sum(row["end_user"] == "ann" for row in records.scan(found))
    with pytest.raises(InvalidKeyField, match="There is no model 'nothing'"):
        await records.read(filters={"model": "nothing"}, group_by="team")
    of_green = await records.read(only_teams=["green"], group_by="team")
    assert [row.group["team"] for row in of_green.data] == ["green"]
    top = await records.read(group_by="key", limit=1, order_by="cost_microusd")
    assert top.has_more and len(top.data) == 1


async def test_what_is_left_out_is_left_out_of_groups_series_and_quantiles(records: Records):
    excluded = {"team": "green", "status": "5xx", "model": ("b",)}
    found = await records.read(group_by="model", quantiles=True, excluded=excluded)
    rows = [row for row in records.scan(found) if row["team"] == "blue" and row["status"] == 200 and row["model"] != "b"]
    assert {row.group["model"]: row.requests for row in found.data} == {"a": len(rows)} and rows
    assert found.data[0].duration and found.data[0].duration.p95
    by_day = await records.read(interval="day", excluded=excluded)
    assert sum(row.requests for row in by_day.data) == len(rows)
    # What has no value stays, as in lists.
    assert (await records.read(excluded={"variant": "a"})).data[0].requests == len(records.scan(found))
    users = await records.read(group_by="end_user", excluded={"end_user": "ann"})
    assert [row.group["end_user"] for row in users.data] == ["bob"]
    assert users.data[0].requests == sum(row["end_user"] == "bob" for row in records.scan(users))
    with pytest.raises(InvalidKeyField, match="There is no team 'red'") as refused:
        await records.read(excluded={"team": "red"})
    assert refused.value.field == "not_team"


async def test_quantiles_are_within_the_stated_error_and_order_groups(records: Records):
    found = await records.read(group_by="provider", quantiles=True, order_by="p95_duration_us")
    slowest = [row.duration.p95 for row in found.data if row.duration]
    assert slowest == sorted(slowest, key=lambda each: -(each or 0)) and len(slowest) == 2
    for row in found.data:
        durations = sorted(each["duration_us"] for each in records.scan(found) if each["served_provider"] == row.group["provider"])
        exact = durations[-(-len(durations) * 95 // 100) - 1]
        assert row.duration and abs((row.duration.p95 or 0) - exact) <= RELATIVE_ERROR * exact + 1
        assert row.first_token and row.first_token.p50 is None, "none was streamed"


@pytest.mark.parametrize("time_zone", ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Auckland"])
@pytest.mark.parametrize("interval", ["day", "week"])
async def test_quantiles_of_days_anywhere_are_those_of_a_scan(records: Records, interval: Any, time_zone: str):
    """A day of another zone is that of UTC with some hours more and some fewer: none may be counted twice, or not at all."""
    by_day = await records.read(interval=interval, time_zone=time_zone, quantiles=True, group_by="team", limit=10)
    rows = records.scan(by_day)
    starts = sorted({datetime.datetime.fromisoformat(row.time or "") for row in by_day.data})
    durations: dict[tuple[str | None, str | None], list[int]] = {}
    for row in rows:
        start = max(each for each in starts if each <= row["received_at"])
        durations.setdefault((start.isoformat(), row["team"]), []).append(row["duration_us"])
    assert {(row.time, row.group["team"]) for row in by_day.data} == set(durations)
    for row in by_day.data:
        measured = sorted(durations[row.time, row.group["team"]])
        assert row.requests == len(measured) and row.duration
        for fraction, found in ((50, row.duration.p50), (95, row.duration.p95), (99, row.duration.p99)):
            exact = measured[-(-len(measured) * fraction // 100) - 1]
            assert abs((found or 0) - exact) <= RELATIVE_ERROR * exact + 1, (row.time, fraction)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"group_by": "color"}, "group_by"),
        ({"group_by": "team,team"}, "group_by"),
        ({"group_by": "end_user", "filters": {"tag:tenant": "x"}}, "group_by"),
        ({"interval": "minute"}, "since"),
        ({"interval": "minute", "since": NOW - DAY / 24, "until": NOW, "filters": {"end_user": "ann"}}, "interval"),
        ({"interval": "hour", "group_by": "team"}, "interval"),
        ({"interval": "day", "time_zone": "Asia/Kolkata"}, "time_zone"),
        ({"time_zone": "Mars"}, "time_zone"),
        ({"group_by": "team", "excluded": {"end_user": "ann"}}, "not_end_user"),
        ({"since": NOW}, "since"),
    ],
)
async def test_what_cannot_be_answered_is_refused_by_name(records: Records, changes: dict[str, Any], field: str):
    with pytest.raises(InvalidKeyField) as refused:
        await records.read(**changes)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("since", "until", "pieces"),
    [
        ("2026-11-20T10:15", "2026-11-20T12:01", [("hour", "2026-11-20T10", "2026-11-20T13")]),
        (
            *("2026-11-18T10:15", "2026-11-20T12:00"),
            [
                ("hour", "2026-11-18T10", "2026-11-19T00"),
                ("day", "2026-11-19T00", "2026-11-20T00"),
                ("hour", "2026-11-20T00", "2026-11-20T12"),
            ],
        ),
        # The hours of these days are gone.
        ("2026-09-01T10:15", "2026-09-01T11:00", [("day", "2026-09-01T00", "2026-09-02T00")]),
        ("2026-09-01T10:15", "2026-09-03T11:00", [("day", "2026-09-01T00", "2026-09-04T00")]),
        (
            *("2026-09-01T10:15", "2026-11-20T12:00"),
            [("day", "2026-09-01T00", "2026-11-20T00"), ("hour", "2026-11-20T00", "2026-11-20T12")],
        ),
    ],
)
def test_a_period_is_read_by_days_and_by_hours_where_these_are_kept(since: str, until: str, pieces: list[tuple[str, str, str]]):
    begin, end, now = (datetime.datetime.fromisoformat(f"{each}+00:00") for each in (since, until, "2026-11-21T00:00"))
    query = make_query(since=begin, until=end, now=now, keep_minutes_days=7, keep_hours_days=30)
    assert [(each.level, f"{each.begin:%Y-%m-%dT%H}", f"{each.end:%Y-%m-%dT%H}") for each in query.pieces] == pieces


async def test_a_time_zone_does_not_matter_without_an_interval(records: Records):
    """That holds for a zone whose days begin at half past an hour, and where the period's hours are no longer kept."""
    period: dict[str, Any] = {"since": NOW - 90 * DAY, "keep_hours_days": 5}
    in_utc = await records.read(**period)
    assert (await records.read(**period, time_zone="Asia/Kolkata")).data == in_utc.data
    assert in_utc.data[0].requests == len(records.scan(in_utc))


async def test_rest_and_command_show_requests_moments_after_them(service: Service):
    tag = uuid.uuid4().hex
    async with service.client() as caller, service.admin_client() as admin:
        chat = {"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}], "metadata": {"run": tag}, "user": "ann"}
        for _ in range(3):
            assert (await caller.post("/v1/chat/completions", json=chat)).status_code == 200
        parameters = {"group_by": "team,tag:run", "tag": f"run={tag}", "interval": "hour", "quantiles": "true"}

        async def is_counted() -> bool:
            data = (await admin.get(PATH, params=parameters)).json()["data"]
            return sum(row["requests"] for row in data) == 3

        await wait_until(is_counted)
        document = (await admin.get(PATH, params=parameters)).json()
        assert document["complete_until"] and document["data"][0]["group"]["tag:run"] == tag
        assert document["data"][0]["duration"]["p95"] > 0
        wrong = await admin.get(PATH, params={"status": "2yy"})
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "status")
        assert (await admin.get(PATH, params={"tag": "run"})).json()["error"]["param"] == "tag"
        assert (await caller.get(PATH)).status_code == 403
    shown = json.loads(service.run("analytics", "--where", f"tag:run={tag}", "--by", "model", "--json").stdout)
    assert shown["data"][0]["requests"] == 3
    others = service.run("analytics", "--where", f"tag:run={tag}", "--where", "model!=sandbox", "--by", "model", "--json")
    assert json.loads(others.stdout)["data"] == []
    table = service.run("analytics", "--where", f"tag:run={tag}", "--by", "model", "--quantiles")
    assert "sandbox" in table.stdout
    assert shown["data"][0]["unpriced"] == 3
    assert " - " in table.stdout and "3 of these have no known cost" in table.stderr


async def test_series_say_where_they_end(records: Records):
    (row,) = await fetch(records.settings.database_url, "SELECT stored_until FROM spools")
    found = await records.read(until=NOW + DAY)
    assert found.complete_until == row["stored_until"].isoformat(timespec="seconds")
