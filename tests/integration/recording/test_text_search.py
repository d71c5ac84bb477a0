"""Full-text search: what was written is found by teams that have it on, and by nobody else, with bounded work."""

import datetime
import json
import uuid
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.domain import uuid7
from app.domain.callers import MaskConfig
from app.recording.spool.spool import Spool
from app.recording.writer import text_rows, writer
from app.recording.writes.inference_texts import delete_texts, index_closed_days
from app.settings import Settings
from app.store.postgres.database import connect, create_database_engine
from app.store.records import text_search
from app.store.records.inference_filter import InferenceFilter
from app.store.records.inference_queries import page_inferences, walk_inferences
from app.store.records.search_words import read_search
from app.store.teams.teams import find_team, set_team
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import drain, fetch, running_writer
from tests.support.spooled_exchanges import make_exchange

PATH = "/admin/v1/inferences"
NOW = datetime.datetime.now(datetime.UTC)


class Recorded:
    """A database with two teams that have full-text search, and a spool to put inferences into."""

    def __init__(self, database: str, home: Path, team_ids: dict[str, str]) -> None:
        self.settings = Settings(home=home, database_url=database)
        self.team_ids = team_ids

    async def add(self, *texts: str, team: str = "blue", days_ago: float = 0, policy: Any = "full", **fields: Any) -> list[str]:
        """Chats with these texts as questions, each a second after the one before; their ids."""
        spool = Spool(self.settings.home / "spool", self.settings)
        begin_us = int((NOW - datetime.timedelta(days=days_ago)).timestamp() * 1_000_000)
        ids: list[str] = []
        for number, text in enumerate(texts):
            at_us = begin_us + number * 1_000_000
            made = make_exchange(id=uuid7.mint(at_us), received_us=at_us, team_id=self.team_ids[team], content=policy, **fields)
            record = spool.open(made.id, policy, MaskConfig(patterns={"badge": "E[0-9]{3}"}) if policy == "masked" else MaskConfig())
            record.append_request(json.dumps({"messages": [{"role": "user", "content": text}]}).encode())
            record.append_response(json.dumps({"choices": [{"message": {"content": "answered"}}]}).encode())
            record.close(made)
            ids.append(made.id)
        spool.close()
        await drain(self.settings)
        return ids

    async def find(self, text: str, page: int = 100, **filters: Any) -> list[str]:
        filters = {"only_teams": ["blue"], **filters, "text": read_search(text)}
        found: list[str] = []
        before: str | None = None
        engine = create_database_engine(self.settings.database_url)
        try:
            while True:
                async with engine.begin() as connection:
                    answer = await page_inferences(connection, InferenceFilter(**filters), keep_hours_days=400, before=before, limit=page)
                found += [row["id"] for row in answer.rows]
                before = answer.next
                if before is None:
                    return found
        finally:
            await engine.dispose()


@pytest.fixture
async def recorded(database: str, tmp_path: Path) -> Recorded:
    ids: dict[str, str] = {}
    engine = create_database_engine(database)
    for name, search in (("blue", True), ("green", True), ("off", False)):
        await set_team(engine, name, search=search)
        async with engine.begin() as connection:
            team = await find_team(connection, name)
            assert team is not None
            ids[name] = team.id
    await engine.dispose()
    return Recorded(database, tmp_path, ids)


async def test_words_phrases_and_exclusions_find_what_they_say(recorded: Recorded) -> None:
    first, second, third = await recorded.add(
        "The red Kingfisher dives", "a red, red bird: kingfisher!", "東京タワーは高い ÉTÉ get_weather"
    )
    for search, found in (
        ("kingfisher", [second, first]),
        ("KINGFISHER red", [second, first]),
        ('"red kingfisher"', [first]),
        ("red -dives", [second]),
        ("dives or été", [third, first]),
        ("東京タワー", [third]),
        ("タワ", [third]),
        ("京東", []),
        ("get_weather", [third]),
        ("weather get", [third]),
        ("kingfishers", []),
        ("answered", [third, second, first]),
        ("-red", [third]),
    ):
        assert await recorded.find(search) == found, search


async def test_only_teams_with_search_have_words_and_only_of_kept_content(recorded: Recorded) -> None:
    await recorded.add("kingfisher", team="off")
    for policy in ("redacted", "none"):
        await recorded.add("kingfisher", policy=policy)
    (theirs,) = await recorded.add("kingfisher", team="green", days_ago=0.001)
    (masked,) = await recorded.add("kingfisher E123", policy="masked")
    assert len(await fetch(recorded.settings.database_url, "SELECT FROM inference_texts")) == 2
    assert await recorded.find("kingfisher") == [masked]
    assert await recorded.find("kingfisher badge") == [masked] and await recorded.find("E123") == []
    assert await recorded.find("kingfisher", only_teams=None) == [masked, theirs]
    assert await recorded.find("kingfisher", only_teams=None, team="green") == [theirs]
    assert await recorded.find("kingfisher", only_teams=None, team_id=recorded.team_ids["blue"]) == [masked]


async def test_search_goes_with_other_filters_page_by_page(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_search, "_FIRST_STEP", 3)
    ids = await recorded.add(*(f"word number {number} {'even' * (number % 2 == 0)}" for number in range(30)), days_ago=2, end_user="ann")
    await recorded.add("word", days_ago=2.5)
    ids += await recorded.add("word even", "word", days_ago=0.001, end_user="ann")
    await recorded.add("word even", team="green", end_user="ann")
    expected = [id for number, id in enumerate(ids) if number % 2 == 0][::-1]
    for page in (1, 3, 100):
        assert await recorded.find("even word", page=page, end_user="ann") == expected
    since_ms = uuid7.created_ms(ids[30])
    assert await recorded.find("even", end_user="ann", since_ms=since_ms) == [ids[30]]
    assert await recorded.find("even", end_user="ann", until_ms=since_ms) == expected[1:]
    assert await recorded.find("even", end_user="bob") == []


async def test_closed_days_are_searched_by_an_index_and_late_records_are_found(recorded: Recorded) -> None:
    # At noon, as five minutes of them are of two days around midnight.
    days_ago = 3 + (NOW - NOW.replace(hour=12, minute=0, second=0, microsecond=0)) / datetime.timedelta(days=1)
    await recorded.add(*["filler and more of it"] * 300, days_ago=days_ago)
    (rare,) = await recorded.add("kingfisher", days_ago=days_ago)
    await recorded.add("kingfisher")
    connection = await connect(recorded.settings.database_url)
    partition = f"inference_texts_{NOW - datetime.timedelta(days=3):%Y%m%d}"
    indexes = "SELECT tablename FROM pg_indexes WHERE indexname LIKE '%_words_idx' ORDER BY 1"
    await index_closed_days(connection)
    assert [row["tablename"] for row in await connection.fetch(indexes)] == [partition], "not of today"
    await connection.execute("SET enable_seqscan = off")
    query = f"EXPLAIN SELECT id FROM {partition} WHERE words @@ websearch_to_tsquery('simple', 'kingfisher')"
    assert f"{partition}_words_idx" in str(await connection.fetch(query))
    (late,) = await recorded.add("kingfisher late", days_ago=days_ago - 0.001)
    found = await recorded.find("kingfisher")
    assert found[1:] == sorted([rare, late], reverse=True)
    # An index whose building was broken off, as by a crash, is built again.
    await connection.execute(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{partition}_words_idx'::regclass")
    await index_closed_days(connection)
    assert await connection.fetchval(f"SELECT indisvalid FROM pg_index WHERE indexrelid = '{partition}_words_idx'::regclass")
    await connection.close()


async def test_writer_indexes_closed_days_by_itself(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "INDEX_EVERY_S", 0.05)
    await recorded.add("kingfisher", days_ago=3)

    async def is_indexed() -> bool:
        return bool(
            await fetch(recorded.settings.database_url, "SELECT FROM pg_indexes WHERE indexname LIKE 'inference_texts_2%_words_idx'")
        )

    async with running_writer(recorded.settings):
        await wait_until(is_indexed)


async def test_page_that_takes_too_long_says_how_far_it_came_and_goes_on(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_search, "_FIRST_STEP", 10)
    monkeypatch.setattr(text_search, "_QUICK_S", 0.0)
    monkeypatch.setattr("app.store.records.inference_queries._TEXT_TIMEOUT_S", 0.0)
    (oldest,) = await recorded.add("kingfisher", days_ago=1)
    await recorded.add(*["filler"] * 45)
    engine = create_database_engine(recorded.settings.database_url)
    async with engine.begin() as connection:
        filters = InferenceFilter(text=read_search("kingfisher"))
        page = await page_inferences(connection, filters, keep_hours_days=400, before=None, limit=5)
    assert page.rows == [] and page.next is not None and page.searched_to is not None
    assert await recorded.find("kingfisher") == [oldest]
    pages = [page async for page in walk_inferences(engine.begin, filters, 400)]
    assert [row["id"] for page in pages for row in page] == [oldest] and len(pages) > 1
    await engine.dispose()


async def test_words_are_bounded_while_much_is_stored_and_cannot_stop_the_writer(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_rows, "_BATCH_CHARACTERS", 10_000)
    monkeypatch.setattr(text_rows, "_ROWS_AT_ONCE", 1)
    nasty = "\0 " + " ".join(f"w{number}x{'y' * (number % 3000)}" for number in range(3000))
    ids = await recorded.add(f"kingfisher {nasty}", "-".join(["a"] * 9000), *[f"{'filler ' * 3000} kingfisher"] * 3, f"kingfisher {nasty}")
    assert len(await fetch(recorded.settings.database_url, "SELECT FROM inferences")) == len(ids)
    assert await recorded.find("kingfisher") == [ids[5], ids[0]]


async def test_texts_that_take_too_long_are_left_out(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_rows, "_ROWS_AT_ONCE", 1)
    monkeypatch.setattr(text_rows, "_MAX_SECONDS", -1.0)
    ids = await recorded.add("kingfisher", "kingfisher")
    assert len(await fetch(recorded.settings.database_url, "SELECT FROM inferences")) == len(ids)
    assert await fetch(recorded.settings.database_url, "SELECT FROM inference_texts") == []


async def test_inferences_are_stored_when_their_words_cannot_be(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    def words_with_nul(text: str) -> str:
        return f"{text}\0"

    monkeypatch.setattr(text_rows, "split_words", words_with_nul)
    ids = await recorded.add("kingfisher", "kingfisher")
    assert sorted(str(row["id"]) for row in await fetch(recorded.settings.database_url, "SELECT id FROM inferences")) == ids
    assert await fetch(recorded.settings.database_url, "SELECT FROM inference_texts") == []


async def test_deleted_words_are_found_no_more(recorded: Recorded) -> None:
    first, second = await recorded.add("kingfisher", "kingfisher")
    connection = await connect(recorded.settings.database_url)
    assert await delete_texts(connection, [first, uuid7.mint()]) == 1
    await connection.close()
    assert await recorded.find("kingfisher") == [second]


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_a_response_that_its_caller_deleted_is_not_found_by_its_words(recorded: Recorded) -> None:
    kept, deleted = await recorded.add("a striped zebra", "another striped zebra")
    assert await recorded.find("zebra") == [deleted, kept]
    insert = "INSERT INTO deleted_responses (id, team_id) VALUES ($1, $2)"
    await fetch(recorded.settings.database_url, insert, deleted, recorded.team_ids["blue"])
    assert await recorded.find("zebra") == [kept]


async def test_search_over_http_and_by_command(service: Service) -> None:
    team, word = f"search-{uuid.uuid4().hex[:8]}", f"zq{uuid.uuid4().hex}"
    async with service.keyless_client() as client, service.admin_client() as admin:
        key = (await admin.post("/admin/v1/keys", json={"team": team})).json()["key"]
        off = await admin.get(PATH, params={"text": word, "team": team})
        assert (off.status_code, off.json()["error"]["param"]) == (400, "text") and "turns it on" in off.json()["error"]["message"]
        shown = await admin.patch(f"/admin/v1/teams/{team}", json={"search": True}, headers={"if-match": "*"})
        assert shown.json()["search"] is True
        chat = {"model": "sandbox", "messages": [{"role": "user", "content": f"find {word} please"}]}
        sent = await client.post("/v1/chat/completions", json=chat, headers=bearer(key))
        streamed = await client.post("/v1/chat/completions", json={**chat, "stream": True}, headers=bearer(key))
        ids = [each.headers["x-narthex-inference-id"] for each in (streamed, sent)]

        async def is_found() -> bool:
            data = (await admin.get(PATH, params={"text": word})).json()["data"]
            return [row["id"] for row in data] == ids

        await wait_until(is_found)
        page = (await admin.get(PATH, params={"text": f'"find {word}" please', "team": team, "limit": "1"})).json()
        assert [row["id"] for row in page["data"]] == ids[:1] and page["next"] == ids[0] and page["searched_to"] is None
        export = (await admin.get(f"{PATH}/export", params={"text": word, "team": team})).text.splitlines()
        assert [json.loads(line)["id"] for line in export] == ids
        for text in ("", "  ", "-", "x " * 150, "y" * 5000):
            wrong = await admin.get(PATH, params={"text": text})
            assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "text"), text
        await _check_roles(admin, client, team, word, ids)
    found = json.loads(service.run("inferences", "--text", f"{word} -absent", "--json").stdout)
    assert [row["id"] for row in found["inferences"]] == ids and found["more"] is False
    assert "letter or digit" in service.run("inferences", "--text", "!!").stderr
    switched = service.run("teams", "set", team, "--no-search")
    assert switched.stdout.endswith("search off.\n"), switched
    assert "has full-text search on" in service.run("inferences", "--team", team, "--text", word).stderr


async def _check_roles(admin: httpx2.AsyncClient, client: httpx2.AsyncClient, team: str, word: str, ids: list[str]) -> None:
    """Asserts that whoever may not see what was written cannot find out by searching it."""
    other = f"search-{uuid.uuid4().hex[:8]}"
    assert (await admin.post("/admin/v1/teams", json={"name": other, "search": True})).status_code == 201
    for role, in_team, status, found in (
        ("viewer", None, 403, None),
        ("viewer", team, 403, None),
        ("auditor", None, 200, ids),
        ("auditor", team, 200, ids),
        ("owner", other, 200, []),
    ):
        name = f"account-{uuid.uuid4().hex[:8]}"
        await admin.post("/admin/v1/service-accounts", json={"name": name, "roles": [{"role": role, "team": in_team}]})
        token = (await admin.post(f"/admin/v1/service-accounts/{name}/tokens")).json()["token"]
        for path in (PATH, f"{PATH}/export"):
            answer = await client.get(path, params={"text": word}, headers=bearer(token))
            assert answer.status_code == status, (role, in_team, path, answer.text)
            if found is not None and path == PATH:
                assert [row["id"] for row in answer.json()["data"]] == found, (role, in_team)
