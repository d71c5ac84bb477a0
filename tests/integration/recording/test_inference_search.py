"""Search of recorded inferences: each filter finds what a scan finds, page by page, and what matches nothing is not searched for."""

import asyncio
import contextlib
import csv
import datetime
import json
import random
import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain import uuid7
from app.domain.callers import Caller
from app.domain.episode_names import named_episode_id
from app.domain.errors import InvalidKeyField
from app.recording.rows import rollup_sums
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.keys.callers import find_callers
from app.store.keys.key_format import hash_key, parse_prefix
from app.store.postgres.database import connect, create_database_engine
from app.store.records import episode_lookup, inference_counts, inference_queries
from app.store.records.inference_counts import InferenceCount, count_inferences
from app.store.records.inference_filter import InferenceFilter, matches
from app.store.records.inference_queries import list_inferences, search_inferences
from app.store.records.inference_ranking import Position, page_most, read_position
from app.store.records.inference_tail import current_position, read_stored
from app.store.teams import keys
from providers.canonical.chat import Usage
from tests.support.processes.postgres import Postgres
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import drain
from tests.support.spooled_exchanges import spool_exchange

PATH = "/admin/v1/inferences"
NOW = datetime.datetime.now(datetime.UTC)
OWN_ID = uuid7.mint()
ORIGINAL_ID = uuid7.mint()
Fields = dict[str, Any]


class Records:
    """A database with inferences of the last 40 days, the older ones stored before there were rollups."""

    def __init__(self, settings: Settings, callers: list[Caller], rows: list[Fields]) -> None:
        self.settings = settings
        self.database = create_database_engine(settings.database_url)
        self.callers = callers
        teams = {caller.team_id: caller.team for caller in callers}
        named: list[Fields] = [{**row, "team": teams[row["team_id"]]} for row in rows]
        self.rows = sorted(named, key=lambda row: row["id"], reverse=True)

    async def ids(self, filters: InferenceFilter, page: int = 1000) -> list[str]:
        found: list[str] = []
        while True:
            async with self.database.begin() as connection:
                before = found[-1] if found else None
                rows = await list_inferences(connection, filters, keep_hours_days=400, before=before, limit=page)
            found += [row["id"] for row in rows]
            if len(rows) < page:
                return found


@pytest.fixture(scope="module")
async def records(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Records]:
    await postgres.execute("CREATE DATABASE search TEMPLATE migrated")
    home = tmp_path_factory.mktemp("search")
    settings = Settings(home=home, database_url=postgres.database_url("search"))
    made = [await keys.create_key(settings.database_url, team) for team in ("blue", "green")]
    connection = await connect(settings.database_url)
    found = await find_callers(connection, {hash_key(key): parse_prefix(key) or "" for key in made})
    callers = [found[hash_key(key)] for key in made]
    chance = random.Random(6)
    episodes = [uuid7.mint(int((NOW - datetime.timedelta(days=41)).timestamp() * 1_000_000)) for _ in range(5)]
    rows: list[Fields] = []
    for _ in range(400):
        at_us = int((NOW - datetime.timedelta(days=chance.random() ** 2 * 40)).timestamp() * 1_000_000)
        caller, failed = chance.choice(callers), chance.random() < 0.05
        rows.append(
            {
                **{"id": uuid7.mint(at_us), "received_us": at_us, "team_id": caller.team_id, "key_id": caller.key_id},
                **{"model": chance.choice(("a", "tensorzero::model_name::a", "b")), "episode_id": chance.choice(episodes)},
                **{"served_provider": chance.choice(("gpu", "host")), "duration_us": int(chance.lognormvariate(13, 1))},
                **{"cost_microusd": chance.choice((None, 5, 1000)), "end_user": chance.choice((None, None, "ann", "bob"))},
                **{"tags": chance.choice(({}, {"tenant": "x"}, {"tenant": "y", "n": str(chance.randrange(99))}))},
                **{"trace_id": chance.choice((None, "0a" * 16, "0b" * 16)), "request_id": chance.choice((None, "req-1", OWN_ID))},
                **{"first_token_us": chance.choice((None, 100, 900)), "usage": chance.choice((Usage(), Usage(output=7), Usage(output=70)))},
                **({"status": 502, "outcome": "failed", "error": "UpstreamFailed"} if failed else {"status": 200, "outcome": "answered"}),
            }
        )
    for row in rows[::7]:
        row |= {"episode_id": named_episode_id(row["team_id"], "chat 1"), "episode_name": "chat 1"}
    for row in rows[::11]:
        row |= {"origin": chance.choice(("shadow", "replay")), "original_id": ORIGINAL_ID}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollup_sums, "MAX_SUBJECTS", 8)
        spool = Spool(home / "spool", settings)
        for row in rows:
            spool_exchange(spool, b"", b"", **row)
        spool.close()
        await drain(settings)
    await connection.execute("UPDATE rollups_since SET since = $1", NOW - datetime.timedelta(days=20, minutes=7))
    for level in ("hour", "day"):
        for table in (f"rollups_by_{level}", f"subject_rollups_by_{level}"):
            await connection.execute(f"DELETE FROM {table} WHERE time < $1", NOW - datetime.timedelta(days=21))
    await connection.close()
    records = Records(settings, callers, rows)
    yield records
    await records.database.dispose()


@pytest.fixture(autouse=True)
def time_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a busy machine count to the end."""
    monkeypatch.setattr(inference_counts, "_COUNT_S", GENEROUS_S)


def _days_ago_ms(days: float) -> int:
    return int((NOW - datetime.timedelta(days=days)).timestamp() * 1000)


CASES: list[tuple[Fields, Callable[[Fields], bool]]] = [
    ({}, lambda row: True),
    ({"model": "a"}, lambda row: row["model"].endswith("a")),
    ({"outcome": "failed"}, lambda row: row["outcome"] == "failed"),
    ({"outcome": "failed", "team": "green"}, lambda row: row["outcome"] == "failed" and row["team"] == "green"),
    ({"outcome": ("failed", "aborted"), "since_ms": _days_ago_ms(9)}, lambda row: row["outcome"] == "failed" and _in(row, 9, -1)),
    ({"outcome": ("failed", "answered"), "only_teams": ["blue"]}, lambda row: row["team"] == "blue"),
    ({"end_user": "ann", "until_ms": _days_ago_ms(2)}, lambda row: _is_of_ann(row) and _in(row, 99, 2)),
    ({"end_user": "ann", "outcome": "failed"}, lambda row: _is_of_ann(row) and row["outcome"] == "failed"),
    ({"episode": "chat 1"}, lambda row: "episode_name" in row),
    ({"status": 502, "model": "b"}, lambda row: row["status"] == 502 and row["model"] == "b"),
    ({"status_class": 5}, lambda row: row["status"] == 502),
    ({"error": "UpstreamFailed", "provider": "gpu"}, lambda row: "error" in row and row["served_provider"] == "gpu"),
    ({"error": "Nothing"}, lambda row: False),
    ({"end_user": "ann"}, lambda row: _is_of_ann(row)),
    ({"end_user": "ann", "tag": ("tenant", "x")}, lambda row: _is_of_ann(row) and row["tags"].get("tenant") == "x"),
    ({"end_user": "ann", "origin": "replay"}, lambda row: row["end_user"] == "ann" and row.get("origin") == "replay"),
    ({"tag": ("n", "7")}, lambda row: row["tags"].get("n") == "7" and "origin" not in row),
    ({"tag": ("none", "7")}, lambda row: False),
    ({"min_cost_microusd": 1000}, lambda row: row["cost_microusd"] == 1000),
    ({"min_duration_us": 2_000_000}, lambda row: row["duration_us"] >= 2_000_000),
    ({"team": "green", "min_duration_us": 10**12}, lambda row: False),
    ({"provider": "host", "since_ms": _days_ago_ms(3)}, lambda row: row["served_provider"] == "host" and _in(row, 3, -1)),
    ({"provider": "host", "until_ms": _days_ago_ms(18.2)}, lambda row: row["served_provider"] == "host" and _in(row, 99, 18.2)),
    ({"model": "b", "since_ms": _days_ago_ms(9), "until_ms": _days_ago_ms(8)}, lambda row: row["model"] == "b" and _in(row, 9, 8)),
    ({"only_teams": ["nobody"]}, lambda row: False),
    ({"trace_id": "0a" * 16}, lambda row: row["trace_id"] == "0a" * 16),
    ({"trace_id": "0a" * 16, "model": "b", "since_ms": _days_ago_ms(9)}, lambda row: row["trace_id"] == "0a" * 16 and _is_b(row, 9)),
    ({"trace_id": "0c" * 16}, lambda row: False),
    ({"request_id": "req-1"}, lambda row: row["request_id"] == "req-1"),
    ({"request_id": OWN_ID, "trace_id": "0b" * 16}, lambda row: row["request_id"] == OWN_ID and row["trace_id"] == "0b" * 16),
    ({"request_id": "0a" * 16}, lambda row: False),
    ({"origin": "caller", "model": "a"}, lambda row: "origin" not in row and row["model"].endswith("a")),
    ({"origin": "shadow", "original_id": ORIGINAL_ID}, lambda row: row.get("origin") == "shadow"),
    ({"model": ("a", "b"), "provider": ("gpu", "none")}, lambda row: row["served_provider"] == "gpu"),
    ({"team": ("green", "blue"), "outcome": ("failed", "aborted")}, lambda row: row["outcome"] == "failed"),
    ({"end_user": ("ann", "bob")}, lambda row: row["end_user"] is not None and "origin" not in row),
    ({"status": (200, 404), "status_class": (5,), "model": "b"}, lambda row: row["model"] == "b"),
    ({"status": (200, 404)}, lambda row: row["status"] == 200),
    ({"min_duration_us": 300_000, "max_duration_us": 900_000}, lambda row: 300_000 <= row["duration_us"] <= 900_000),
    ({"max_cost_microusd": 10}, lambda row: row["cost_microusd"] == 5),
    ({"min_first_token_us": 500}, lambda row: row["first_token_us"] == 900),
    ({"max_first_token_us": 500}, lambda row: row["first_token_us"] == 100),
    ({"min_output_tokens": 1, "max_output_tokens": 40}, lambda row: row["usage"].output == 7),
    ({"min_attempts": 2}, lambda row: False),
    ({"min_attempts": 1, "error": "UpstreamFailed"}, lambda row: "error" in row),
]


def _is_of_ann(row: Fields) -> bool:
    """Shadows and replays of it are found only by what names them."""
    return row["end_user"] == "ann" and "origin" not in row


def _is_b(row: Fields, oldest_days: float) -> bool:
    return row["model"] == "b" and _in(row, oldest_days, -1)


def _in(row: Fields, oldest_days: float, newest_days: float) -> bool:
    return _days_ago_ms(oldest_days) <= row["received_us"] // 1000 < _days_ago_ms(newest_days)


@pytest.mark.parametrize(("fields", "matches"), CASES, ids=[str(list(fields)) for fields, _ in CASES])
async def test_filter_finds_what_a_scan_finds(records: Records, fields: Fields, matches: Callable[[Fields], bool]):
    expected = [row["id"] for row in records.rows if matches(row)]
    assert await records.ids(InferenceFilter(**fields)) == expected
    page = max(7, len(expected) // 8)
    assert await records.ids(InferenceFilter(**fields), page=page) == expected, "page by page"


@pytest.mark.parametrize(("fields", "matches"), CASES, ids=[str(list(fields)) for fields, _ in CASES])
async def test_search_in_steps_finds_what_a_scan_finds(
    records: Records, fields: Fields, matches: Callable[[Fields], bool], monkeypatch: pytest.MonkeyPatch
):
    if not {"episode", "trace_id", "request_id"}.isdisjoint(fields):
        return
    monkeypatch.setattr(inference_queries, "SEARCHED_ROWS", 30)
    found: list[str] = []
    before: str | None = None
    steps = 0
    while before is not None or not steps:
        async with records.database.begin() as connection:
            page = await search_inferences(connection, InferenceFilter(**fields), keep_hours_days=400, before=before, limit=17, search_s=0)
        found += [row["id"] for row in page.rows]
        assert before is None or page.next is None or page.next < before, "each step goes on"
        before, steps = page.next, steps + 1
    assert found == [row["id"] for row in records.rows if matches(row)]
    assert steps > 1 or fields.keys() & {"since_ms", "until_ms"} or not found


@pytest.mark.parametrize(("fields", "expected"), CASES, ids=[str(list(fields)) for fields, _ in CASES])
async def test_tail_follows_what_the_filter_finds(records: Records, fields: Fields, expected: Callable[[Fields], bool]):
    async with records.database.begin() as connection:
        until = await current_position(connection)
        rows, _ = await read_stored(connection, "1:1:", until, None, 10_000)
    newest = {row["id"] for row in records.rows if _in(row, 2, -1)}
    found = {row["id"] for row in rows if matches(InferenceFilter(**fields), row)}
    assert found >= {row["id"] for row in records.rows if row["id"] in newest and expected(row)} and newest
    assert found <= {row["id"] for row in records.rows if expected(row)}


@pytest.mark.parametrize(("fields", "matches"), CASES, ids=[str(list(fields)) for fields, _ in CASES])
async def test_count_is_that_of_a_scan_also_beyond_what_is_counted_row_by_row(
    records: Records, fields: Fields, matches: Callable[[Fields], bool], monkeypatch: pytest.MonkeyPatch
):
    expected = sum(map(matches, records.rows))
    assert await _count(records, fields) == InferenceCount(expected, False)
    monkeypatch.setattr(inference_counts, "COUNTED_ROWS", 20)
    bounded = await _count(records, fields)
    assert bounded in (InferenceCount(expected, False), InferenceCount(20, True))
    assert not bounded.capped or expected > 20


@pytest.mark.parametrize(
    "fields",
    [
        {"provider": "host", "since_ms": _days_ago_ms(3)},
        {"model": "b", "since_ms": _days_ago_ms(9), "until_ms": _days_ago_ms(1.01)},
        {"team": ("green", "blue"), "status_class": (2, 5), "since_ms": _days_ago_ms(12)},
    ],
)
async def test_a_large_count_is_exact_where_sums_know_the_filter(records: Records, fields: Fields, monkeypatch: pytest.MonkeyPatch):
    exact = await _count(records, fields)
    monkeypatch.setattr(inference_counts, "COUNTED_ROWS", 20)
    assert await _count(records, fields) == exact and exact.count > 20
    assert (await _count(records, {**fields, "only_teams": ["green", "blue"]})) == InferenceCount(20, True), "sums know no shadows"
    assert (await _count(records, {**fields, "min_output_tokens": 1})) == InferenceCount(20, True), "sums know no single row"


async def test_a_count_ends_when_its_time_is_up(records: Records, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference_counts, "_COUNT_S", 0)
    assert (await _count(records, {"min_output_tokens": 1})).capped


async def _count(records: Records, fields: Fields) -> InferenceCount:
    async with records.database.begin() as connection:
        return await count_inferences(connection, InferenceFilter(**fields), keep_hours_days=400)


@pytest.mark.parametrize("measure", ["duration_us", "cost_microusd"])
@pytest.mark.parametrize(("fields", "matches"), CASES, ids=[str(list(fields)) for fields, _ in CASES])
async def test_most_first_is_what_sorting_a_scan_gives(records: Records, fields: Fields, matches: Callable[[Fields], bool], measure: str):
    """Pages by what was measured have each row once, also where many have the same, and where some hours have no sums."""
    fields = {"since_ms": _days_ago_ms(30), **fields}
    within = [row for row in records.rows if matches(row) and _in_period(row, fields) and row[measure] is not None]
    expected = [row["id"] for row in sorted(within, key=lambda row: (row[measure], row["id"]), reverse=True)]
    found: list[str] = []
    after: Position | None = None
    limit = max(60, len(expected) // 3)
    while after is not None or not found:
        async with records.database.begin() as connection:
            page = await page_most(connection, InferenceFilter(**fields), measure, keep_hours_days=400, after=after, limit=limit)
        found += [row["id"] for row in page.rows]
        if page.next is None:
            break
        after = read_position(page.next)
    assert found == expected


@contextlib.contextmanager
def _statements(database: AsyncEngine) -> Generator[list[str]]:
    statements: list[str] = []

    def keep(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        statements.append(statement)

    event.listen(database.sync_engine, "before_cursor_execute", keep)
    try:
        yield statements
    finally:
        event.remove(database.sync_engine, "before_cursor_execute", keep)


async def test_search_reads_no_year_before_the_first_inference(database: str, tmp_path: Path):
    """The sums of a new database are complete since 1970."""
    settings = Settings(home=tmp_path, database_url=database)
    spool = Spool(tmp_path / "spool", settings)
    spooled = spool_exchange(spool, b"", b"", model="a")
    spool.close()
    await drain(settings)
    engine = create_database_engine(database)
    with _statements(engine) as statements:
        async with engine.begin() as connection:
            for model, expected in (("a", [spooled.id]), ("b", [])):
                rows = await list_inferences(connection, InferenceFilter(model=model), keep_hours_days=400, before=None, limit=5)
                assert [row["id"] for row in rows] == expected
    await engine.dispose()
    assert len(statements) <= 12


async def test_most_first_reads_only_hours_that_may_belong_to_the_page(records: Records):
    with _statements(records.database) as statements:
        async with records.database.begin() as connection:
            filters = InferenceFilter(since_ms=_days_ago_ms(15), provider=("gpu", "host"))
            page = await page_most(connection, filters, "duration_us", keep_hours_days=400, after=None, limit=5)
    hours = {row["received_us"] // 3_600_000_000 for row in records.rows if _in(row, 15, -1)}
    assert len(page.rows) == 5 and len([each for each in statements if "FROM inferences" in each]) <= 7 < len(hours)


def _in_period(row: Fields, fields: Fields) -> bool:
    received_ms = row["received_us"] // 1000
    return fields["since_ms"] <= received_ms < fields.get("until_ms", received_ms + 1)


async def test_export_has_all_pages(records: Records, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inference_queries, "_EXPORT_PAGE_ROWS", 7)
    pages = inference_queries.walk_inferences(records.database.begin, InferenceFilter(end_user="ann"), 400)
    exported = [row["id"] async for page in pages for row in page]
    assert exported == [row["id"] for row in records.rows if _is_of_ann(row)]


async def test_filters_by_key_team_and_episode(records: Records):
    for caller in records.callers:
        expected = [row["id"] for row in records.rows if row["key_id"] == caller.key_id]
        assert await records.ids(InferenceFilter(key=caller.prefix.removeprefix("nx-"))) == expected
        assert await records.ids(InferenceFilter(team=caller.team)) == expected
    for row in records.rows[::99]:  # whose caller may have given no id: then it got this one
        assert row["id"] in await records.ids(InferenceFilter(request_id=row["request_id"] or row["id"].upper()))
    episode_id = records.rows[0]["episode_id"]
    expected = [row["id"] for row in records.rows if row["episode_id"] == episode_id]
    assert await records.ids(InferenceFilter(episode=episode_id), page=5) == expected


async def test_filter_by_the_name_of_an_episode(records: Records):
    for caller in (None, *records.callers):
        filters = InferenceFilter(episode="chat 1", team=caller and caller.team)
        expected = [row for row in records.rows if row.get("episode_name") and caller in (None, caller_of(records, row))]
        assert await records.ids(filters, page=50) == [row["id"] for row in expected] != []
        assert await records.ids(InferenceFilter(episode="chat 1", only_teams=[caller.team] if caller else None)) == await records.ids(
            filters
        )
        of_uuid = InferenceFilter(episode=expected[0]["episode_id"].upper(), team=caller and caller.team)
        assert await records.ids(of_uuid) == [row["id"] for row in expected if row["team_id"] == expected[0]["team_id"]]
    assert await records.ids(InferenceFilter(episode="chat 2")) == []
    async with records.database.begin() as connection:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(InvalidKeyField, match="name the team, too"):
            patch.setattr(episode_lookup, "MAX_TEAMS", 1)
            await list_inferences(connection, InferenceFilter(episode="chat 1"), keep_hours_days=400, before=None, limit=1)


def caller_of(records: Records, row: Fields) -> Caller:
    return next(caller for caller in records.callers if caller.key_id == row["key_id"])


async def test_what_matches_nothing_reads_no_partition_of_inferences(records: Records):
    partitions = "SELECT coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0) FROM pg_stat_user_tables WHERE relname LIKE 'inferences_2%'"
    async with records.database.begin() as connection:
        await connection.execute(text("UPDATE rollups_since SET since = 'epoch'"))
        await connection.execute(text("SELECT pg_stat_force_next_flush()"))
    await asyncio.sleep(0)

    async def scans() -> int:
        async with records.database.connect() as connection:
            await connection.execute(text("SELECT pg_stat_force_next_flush()"))
            await connection.commit()
            return int((await connection.execute(text(partitions))).scalar_one())

    before = await scans()
    assert await records.ids(InferenceFilter(error="Nothing")) == []
    assert await scans() == before
    assert await records.ids(InferenceFilter(error="UpstreamFailed")) != []

    async def has_scanned() -> bool:
        return await scans() > before

    await wait_until(has_scanned)  # else the counts would prove nothing


async def test_search_by_trace_reads_its_index_and_not_every_row(records: Records):
    scanned = "SELECT coalesce(sum(seq_scan), 0) FROM pg_stat_user_tables WHERE relname LIKE 'inferences_2%'"

    async def scans(query: str | None = None) -> int:
        async with records.database.connect() as connection:
            if query is not None:
                await connection.execute(text(query))
            await connection.execute(text("SELECT pg_stat_force_next_flush()"))
            await connection.commit()
            return int((await connection.execute(text(scanned))).scalar_one())

    before = await scans()
    for filters in (InferenceFilter(trace_id="0c" * 16), InferenceFilter(request_id=uuid7.mint()), InferenceFilter(request_id="req-1")):
        await records.ids(filters, page=5)
    assert await scans() == before

    async def has_scanned() -> bool:
        return await scans("SELECT count(*) FROM inferences WHERE message = 'none'") > before

    await wait_until(has_scanned)  # else the counts would prove nothing


async def test_search_over_http(service: Service):
    tag = uuid.uuid4().hex
    async with service.client() as caller, service.admin_client() as admin:
        chat = {"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}], "metadata": {"run": tag}, "user": "ann"}
        trace = uuid.uuid4().hex
        sent = await caller.post("/v1/chat/completions", json=chat, headers={"traceparent": f"00-{trace}-{16 * 'a'}-01"})
        parameters = {"tag": f"run={tag}", "end_user": "ann", "status": "2xx", "provider": "sandbox", "min_duration_us": "1"}

        async def is_found() -> bool:
            data = (await admin.get(PATH, params=parameters)).json()["data"]
            return [row["id"] for row in data] == [sent.headers["x-narthex-inference-id"]]

        await wait_until(is_found)
        assert (await admin.get(PATH, params={"tag": f"run={tag}", "status": "5xx"})).json()["data"] == []
        for found in ({"trace_id": trace.upper()}, {"request_id": sent.headers["x-request-id"]}):
            assert [row["id"] for row in (await admin.get(PATH, params=found)).json()["data"]] == [sent.headers["x-narthex-inference-id"]]
            assert (await admin.get(PATH, params={**found, "team": "nobody"})).json()["error"]["param"] == "team"
        lines = (await admin.get(f"{PATH}/export", params=parameters)).text.splitlines()
        assert [json.loads(line)["id"] for line in lines] == [sent.headers["x-narthex-inference-id"]]
        table = list(csv.DictReader((await admin.get(f"{PATH}/export", params={**parameters, "format": "csv"})).text.splitlines()))
        assert (table[0]["end_user"], json.loads(table[0]["tags"])) == ("ann", {"run": tag})
        wrong_values = {"tag": "run", "key": "sk-1", "status": "6xx", "episode_id": "\t", "min_cost_microusd": "-1", "trace_id": "abc"}
        for name, value in wrong_values.items():
            wrong = await admin.get(PATH, params={name: value})
            assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, name)
    shown = json.loads(service.run("inferences", "--tag", f"run={tag}", "--user", "ann", "--min-duration", "0.000001s", "--json").stdout)
    assert [row["id"] for row in shown["inferences"]] == [sent.headers["x-narthex-inference-id"]] and shown["more"] is False
    for option in (("--tag", f"run={tag}"), ("--trace", trace), ("--request-id", sent.headers["x-request-id"])):
        assert sent.headers["x-narthex-inference-id"] in service.run("inferences", *option).stdout
    assert "32 hexadecimal digits" in service.run("inferences", "--trace", "abc").stderr
    assert json.loads(service.run("inferences", "--tag", f"run={tag}", "--export").stdout)["end_user"] == "ann"
    assert "No request matches" in service.run("inferences", "--tag", f"run={tag}", "--outcome", "failed").stdout
