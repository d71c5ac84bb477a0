"""Erasures: what was recorded of somebody is gone from every store, late records are erased as they come, and sums stay complete."""

import asyncio
import dataclasses
import datetime
import json
import random
import re
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.domain import uuid7
from app.domain.episode_names import named_episode_id
from app.domain.errors import InvalidKeyField
from app.domain.exchange import Attempt, ShadowRecord
from app.recording.erasure import erasures
from app.recording.erasure import runner as erasure_runner
from app.recording.erasure.check import Checked, check_erasure
from app.recording.erasure.erasures import Erasure, NewErasure
from app.recording.erasure.hashes import Selector
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.audit_log import SYSTEM
from app.store.postgres.database import connect, create_database_engine, transaction
from app.store.postgres.locks import ERASED
from app.store.redis.idempotent_responses import ClaimRequest, IdempotencyStore, StoredResponse, claim_key
from app.store.redis.response_cache import CachedResponse, ResponseCache
from tests.integration.usage.test_rollups import TEAMS, random_exchanges
from tests.support.processes.valkey import Valkey, valkey, valkey_server
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import WriterProcess, drain, fetch, running_writer
from tests.support.rollup_rows import assert_rollups_equal_a_scan
from tests.support.spooled_exchanges import spool_exchange

__all__ = ["valkey", "valkey_server"]

ANN = Selector("end_user", None, "ann")
DAY_US = 86_400_000_000
SECRET = "a sentence that only Ann wrote"


@pytest.fixture
def settings(tmp_path: Path, database: str, valkey: Valkey) -> Settings:
    """Settings by which every request has ended after a tenth of a second, and copies settle within a second."""
    return Settings(
        home=tmp_path,
        database_url=database,
        redis_url=valkey.url,
        drain_timeout_s=GENEROUS_S,
        keep_minutes_days=0,
        keep_content_days=0,
        total_timeout_s=0.1,
        redis_timeout_s=0.05,
    )


async def give(settings: Settings, selector: Selector, **options: Any) -> str:
    async with transaction(settings.database_url) as connection:
        return await erasures.give_order(connection, SYSTEM, NewErasure(selector, **options))


async def show(settings: Settings, id: str) -> Erasure:
    async with transaction(settings.database_url) as connection:
        found = await erasures.find_erasure(connection, id)
    assert found is not None
    return found


async def wait_until_complete(settings: Settings, id: str) -> Erasure:
    async def is_complete() -> bool:
        return (await show(settings, id)).status == "complete"

    await wait_until(is_complete)
    return await show(settings, id)


async def carry_out(settings: Settings, selector: Selector, **options: Any) -> Erasure:
    id = await give(settings, selector, **options)
    async with running_writer(settings):
        return await wait_until_complete(settings, id)


async def check(settings: Settings, id: str, **options: Any) -> Checked:
    engine = create_database_engine(settings.database_url)
    try:
        checked = await check_erasure(lambda: admin_transaction(engine, 30, read_only=True), settings, id, **options)
    finally:
        await engine.dispose()
    assert checked is not None
    return checked


async def record(settings: Settings, *exchanges: Mapping[str, Any], content: str = SECRET) -> list[str]:
    """Stored inferences with these fields; returns their ids."""
    ids = spool_all(settings, *exchanges, content=content)
    await drain(settings)
    return ids


def spool_all(settings: Settings, *exchanges: Mapping[str, Any], content: str = SECRET) -> list[str]:
    spool = Spool(settings.home / "spool", settings)
    ids = [spool_exchange(spool, content.encode(), content.encode(), **each).id for each in exchanges]
    spool.close()
    return ids


def received(days_ago: float, **fields: Any) -> dict[str, Any]:
    at_us = int(datetime.datetime.now(datetime.UTC).timestamp() * 1_000_000 - days_ago * DAY_US) - 1_000_000
    return {"id": uuid7.mint(at_us), "received_us": at_us, "team_id": TEAMS[0], **fields}


def of_ann(days_ago: float = 0, **fields: Any) -> dict[str, Any]:
    failed = Attempt("gpu", "m", "http://10.0.0.5:8000", 0, 1, 500, "UpstreamFailed", f"it said: {SECRET}", None, "host-request-1")
    served = Attempt("gpu", "m", "http://10.0.0.5:8000", 0, 1, 200)
    traced = {"trace_id": "0af7651916cd43dd8448eb211c80319c", "parent_span_id": "b7ad6b7169203331", "request_id": "ann-1"}
    return received(
        days_ago,
        **{"end_user": "ann", "tags": {"tenant": "acme", "mail": "ann@example.com"}, "message": SECRET, "attempts": (failed, served)},
        **traced,
        **fields,
    )


async def everything_stored(database: str) -> str:
    """Returns all rows of all tables as text, with contents unpacked."""
    names = await fetch(database, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
    rows = [await fetch(database, f"SELECT t::text AS row FROM {name['relname']} t") for name in names]
    contents = await fetch(database, "SELECT request, response FROM inference_content")
    packed = [part for row in contents for part in row if part is not None]
    return "\n".join([row["row"] for table in rows for row in table] + [repr(part) for part in packed])


async def inference(settings: Settings, id: str) -> Any:
    (row,) = await fetch(settings.database_url, "SELECT * FROM inferences LEFT JOIN inference_content USING (id) WHERE id = $1", id)
    return row


async def test_records_of_days_are_erased_and_usage_and_cost_remain(settings: Settings):
    ids = await record(settings, *(of_ann(days, cost_microusd=7) for days in (0, 1, 40)))
    ids += await record(settings, received(1, end_user="bob"), content="what Bob wrote")
    before = [await inference(settings, id) for id in ids]
    done = await carry_out(settings, ANN, keep_tags=("tenant",))
    assert {name: done.counts[name] for name in ("inferences", "contents")} == {"inferences": 3, "contents": 3}
    removed = ("message", "trace_id", "parent_span_id", "request_id", "request", "response")
    for old, new in zip(before[:3], [await inference(settings, id) for id in ids[:3]], strict=True):
        assert all(old[name] is not None and new[name] is None for name in removed)
        assert (new["end_user"], json.loads(new["tags"]), new["policy"]) == (ERASED, {"tenant": "acme", "mail": ERASED}, "erased")
        assert [attempt["message"] for attempt in json.loads(new["attempts"])] == [None, None]
        assert "host-request" not in new["attempts"] and new["erased_at"] is not None
        changed = {*removed, "end_user", "tags", "attempts", "policy", "erased_at"}
        assert {name: value for name, value in new.items() if name not in changed} == {
            name: value for name, value in old.items() if name not in changed
        }
    assert await inference(settings, ids[3]) == before[3], "others are untouched"
    stored = await everything_stored(settings.database_url)
    assert SECRET not in stored and "what Bob wrote" in stored and not re.search(r"\bann\b", stored)
    assert (await check(settings, done.id)).left == dict.fromkeys(
        (
            *("inferences", "contents", "repetitions", "texts", "sums", "feedback", "dataset_rows"),
            *("stored_responses", "response_items", "idempotent_responses"),
        ),
        0,
    )


def made_of(original: str, days_ago: float = 0, **fields: Any) -> dict[str, Any]:
    """A replay, charged to another team: what its own record has says nothing of Ann."""
    return received(days_ago, **{"team_id": TEAMS[1], "origin": "replay", "original_id": original, "replay_id": uuid7.mint(), **fields})


async def test_what_the_gateway_made_of_an_erased_inference_is_erased_too(settings: Settings):
    (original, other) = await record(settings, of_ann(1), received(1, end_user="bob"))
    replays = await record(settings, made_of(original), made_of(original, origin="judge", end_user="ann"), made_of(other))
    done = await carry_out(settings, ANN)
    assert (done.counts["inferences"], done.counts["repetitions"]) == (2, 1)
    rows = [await inference(settings, id) for id in replays]
    assert [row["policy"] for row in rows] == ["erased", "erased", "full"]
    assert [row["request"] is None and row["erased_at"] is not None for row in rows] == [True, True, False]
    assert (await check(settings, done.id)).left["repetitions"] == 0
    # One that was in progress meanwhile is recorded later, after the order.
    (late,) = await record(settings, made_of(original))
    row = await inference(settings, late)
    assert (row["policy"], row["request"], row["erased_at"] is None) == ("erased", None, False)
    connection = await connect(settings.database_url)
    await connection.execute("UPDATE inferences SET erased_at = NULL WHERE id = $1", late)
    await connection.close()
    found = await check(settings, done.id)
    assert (found.left["repetitions"], list(found.inferences)) == (1, [late])


async def test_what_was_made_of_a_record_that_comes_late_is_erased_with_it(settings: Settings):
    original = of_ann(1)
    (replay,) = await record(settings, made_of(original["id"]))
    await carry_out(settings, ANN)
    assert (await inference(settings, replay))["policy"] == "full", "nobody knows yet whose it is"
    await record(settings, original, made_of(original["id"]))
    stored = await everything_stored(settings.database_url)
    assert SECRET not in stored and (await inference(settings, replay))["policy"] == "erased"


LATER = -0.0001  # in days: after an order that is given now


def shadow_of_ann(original: str, days_ago: float = 0, **fields: Any) -> dict[str, Any]:
    """Returns a shadow that TEAMS[1] made and pays; the request was of TEAMS[0], and so is what was written."""
    link = ShadowRecord("fast", TEAMS[0], is_first_turn=True)
    made = {"team_id": TEAMS[1], "origin": "shadow", "original_id": original, "shadow": link}
    return received(days_ago, **{"end_user": "ann", "tags": {"tenant": "acme"}, **made, **fields})


async def test_shadow_is_erased_by_orders_of_the_team_whose_request_it_repeats_and_not_of_the_one_that_pays(settings: Settings):
    for id, name in zip(TEAMS, ("sales", "lab"), strict=False):
        await fetch(settings.database_url, "INSERT INTO teams (id, name) VALUES ($1, $2)", id, name)
    (original,) = await record(settings, of_ann(1))
    # One is of an original that nothing is recorded of any more: only its own fields say whose it is.
    shadows = await record(settings, shadow_of_ann(original, 1), shadow_of_ann(uuid7.mint(), 1))
    before = [await inference(settings, id) for id in shadows]
    await carry_out(settings, ANN, team="lab")
    assert [await inference(settings, id) for id in shadows] == before, "the team that pays has no such user"
    done = await carry_out(settings, ANN, team="sales")
    for id in shadows:
        row = await inference(settings, id)
        assert (row["policy"], row["request"], row["end_user"], row["erased_at"] is None) == ("erased", None, ERASED, False)
        assert (str(row["team_id"]), str(row["content_team_id"]), row["shadow"]) == (TEAMS[1], TEAMS[0], "fast")
    stored = await everything_stored(settings.database_url)
    assert SECRET not in stored and not re.search(r"\bann\b", stored)
    left = (await check(settings, done.id)).left
    assert set(left.values()) == {0}, left
    # One that was in progress meanwhile is recorded late, and its original with it or not.
    late = await record(settings, shadow_of_ann(original), shadow_of_ann(uuid7.mint(), 1))
    assert [(await inference(settings, id))["policy"] for id in late] == ["erased", "erased"]
    # What Ann writes after the order is not of it.
    (later,) = await record(settings, of_ann(LATER))
    (shadow,) = await record(settings, shadow_of_ann(later, LATER))
    assert (await inference(settings, shadow))["policy"] == "full"


@pytest.mark.parametrize("team", [None, "sales"])
@pytest.mark.parametrize("origin", ["shadow", "replay"])
async def test_sums_that_were_left_are_found_whatever_is_answered_again_later(settings: Settings, origin: str, team: str | None):
    await fetch(settings.database_url, "INSERT INTO teams (id, name) VALUES ($1, 'sales')", TEAMS[0])
    await record(settings, of_ann())
    order = (await carry_out(settings, ANN, team=team)).id
    # What TEAMS[0] answers again of another team's Ann is in no sum of its own Ann.
    made = {"origin": origin, "original_id": uuid7.mint(), "end_user": "ann"}
    await record(settings, *(received(LATER, **made) for _ in range(3)))
    assert (await check(settings, order)).left["sums"] == 0
    await fetch(
        settings.database_url, "UPDATE subject_rollups_by_hour SET value = 'ann' WHERE dimension = 'end_user' AND value = $1", ERASED
    )
    assert (await check(settings, order)).left["sums"] == 1


async def test_sums_equal_a_scan_and_totals_are_unchanged(settings: Settings):
    exchanges = random_exchanges(11, 3)
    await record(settings, *(next(exchanges) for _ in range(400)))
    totals = """
        SELECT dimension, sum(requests)::int, sum(input_tokens)::int, sum(cost_microusd)::bigint, sum(duration_us)::bigint
        FROM subject_rollups_by_day GROUP BY 1 ORDER BY 1
    """
    before = await fetch(settings.database_url, totals)
    for selector in (ANN, Selector("tag", "tenant", "y"), Selector("end_user", None, "bob")):
        await carry_out(settings, selector)
        assert await fetch(settings.database_url, totals) == before
        await assert_rollups_equal_a_scan(settings.database_url, but_maxima_of_subjects=True)
    values = {row["value"] for row in await fetch(settings.database_url, "SELECT DISTINCT value FROM subject_rollups_by_hour")}
    assert ERASED in values and not values & {"ann", "bob", "y"}


async def test_other_teams_and_later_requests_are_untouched(settings: Settings):
    await fetch(settings.database_url, "INSERT INTO teams (id, name) VALUES ($1, 'sales')", TEAMS[0])
    mine, theirs = await record(settings, of_ann(1), {**of_ann(1), "team_id": TEAMS[1]})
    done = await carry_out(settings, ANN, team="sales")
    (later,) = await record(settings, {**of_ann(), **{name: received(-0.001)[name] for name in ("id", "received_us")}})
    users = {id: (await inference(settings, id))["end_user"] for id in (mine, theirs, later)}
    assert users == {mine: ERASED, theirs: "ann", later: "ann"}
    assert not any((await check(settings, done.id)).left.values())
    await assert_rollups_equal_a_scan(settings.database_url, but_maxima_of_subjects=True)


async def test_an_episode_is_erased_and_no_longer_exists(settings: Settings):
    episode = uuid7.mint()
    ids = await record(settings, *(received(0.01 * number, episode_id=episode, end_user="ann") for number in range(3)), of_ann())
    done = await carry_out(settings, Selector("episode", None, episode))
    assert done.counts["inferences"] == 3
    rows = [await inference(settings, id) for id in ids]
    assert [str(row["episode_id"]) == id for row, id in zip(rows, ids, strict=True)] == [True, True, True, False]
    assert [row["end_user"] for row in rows] == [ERASED, ERASED, ERASED, "ann"]
    assert not any((await check(settings, done.id)).left.values())


async def test_an_episode_named_by_a_text_is_erased_by_that_text_and_its_team(settings: Settings):
    await fetch(settings.database_url, "INSERT INTO teams (id, name) VALUES ($1, 'sales')", TEAMS[0])
    name = "chat of ann@example.com"
    named = {"episode_id": named_episode_id(TEAMS[0], name), "episode_name": name}
    theirs = {"team_id": TEAMS[1], "episode_id": named_episode_id(TEAMS[1], name), "episode_name": name}
    # One of them was named by its UUID.
    ids = await record(settings, received(1, **named), received(0, **{**named, "episode_name": None}), {**received(0), **theirs})
    selector = Selector("episode", None, name)
    with pytest.raises(InvalidKeyField, match="Name the team"):
        await give(settings, selector)
    done = await carry_out(settings, selector, team="sales")
    rows = [await inference(settings, id) for id in ids]
    assert [(str(row["episode_id"]) == id, row["episode_name"]) for row, id in zip(rows, ids, strict=True)] == [
        (True, None),
        (True, None),
        (False, name),
    ]
    checked = await check(settings, done.id, selector=selector)
    assert not any(checked.left.values()) and checked.matches is True
    assert (await check(settings, done.id, selector=Selector("episode", None, named["episode_id"]))).matches is True
    assert (await check(settings, done.id, selector=Selector("episode", None, "another"))).matches is False
    (late,) = await record(settings, received(2, **named))
    row = await inference(settings, late)
    assert (str(row["episode_id"]), row["episode_name"], row["policy"]) == (late, None, "erased")


async def test_an_erased_user_leaves_no_name_of_an_episode_and_no_id_that_follows_from_it(settings: Settings):
    name = "chat of ann"
    named = {"episode_id": named_episode_id(TEAMS[0], name), "episode_name": name}
    ids = await record(settings, of_ann(1, **named), of_ann(0, **named), received(0, end_user="bob", **named))
    done = await carry_out(settings, ANN, keep_tags=("tenant",))
    (late,) = await record(settings, of_ann(2, **named))
    for id in (*ids[:2], late):
        row = await inference(settings, id)
        assert (str(row["episode_id"]), row["episode_name"]) == (id, None)
    assert (await inference(settings, ids[2]))["episode_name"] == name, "it is Bob's, too"
    assert not any((await check(settings, done.id)).left.values())


async def test_a_name_that_an_older_writer_left_is_found_by_the_proof(settings: Settings):
    (id,) = await record(settings, of_ann(1, episode_id=named_episode_id(TEAMS[0], "x"), episode_name="x"))
    done = await carry_out(settings, ANN)
    await fetch(settings.database_url, "UPDATE inferences SET episode_name = 'x' WHERE id = $1", id)
    checked = await check(settings, done.id)
    assert (checked.left["inferences"], list(checked.inferences)) == (1, [id])


async def test_late_records_are_erased_as_they_are_stored(settings: Settings):
    """A record of a machine that was off, or of a request in flight, is never stored with what was written."""
    done = await carry_out(settings, ANN)
    tagged = await carry_out(settings, Selector("tag", "mail", "ann@example.com"), keep_tags=("tenant",))
    (other,) = await record(settings, received(2, end_user="bob", tags={"tenant": "acme"}), content="what Bob wrote")
    (late,) = await record(settings, of_ann(2))
    row = await inference(settings, late)
    assert (row["end_user"], json.loads(row["tags"]), row["policy"], row["request"]) == (
        ERASED,
        {"tenant": ERASED, "mail": ERASED},
        "erased",
        None,
    )
    assert (await inference(settings, other))["end_user"] == "bob"
    assert (await show(settings, done.id)).status == "running", "copies of it may be in Redis"
    async with running_writer(settings):
        for id in (done.id, tagged.id):
            assert (await wait_until_complete(settings, id)).counts["late"] == 1
    assert SECRET not in await everything_stored(settings.database_url)
    await assert_rollups_equal_a_scan(settings.database_url)


async def test_a_batch_that_is_being_stored_while_the_order_is_given_is_not_missed(settings: Settings):
    """Many writers and orders at once: whatever comes first, nothing of the user is left."""
    chance = random.Random(5)
    users = [f"user-{number}" for number in range(6)]
    spool = Spool(settings.home / "spool", settings)
    given: list[str] = []

    async def send() -> None:
        for _ in range(300):
            user = chance.choice(users)
            spool_exchange(spool, SECRET.encode(), b"", **received(0.1, end_user=user))
            await asyncio.sleep(0.003)

    async with running_writer(dataclasses.replace(settings, writer_batch_ms=5.0)):
        sending = asyncio.create_task(send())
        for user in users:
            await asyncio.sleep(0.05)
            given.append(await give(settings, Selector("end_user", None, user)))
        await sending
        spool.close()
        for id in given:
            await wait_until_complete(settings, id)
    await drain(settings)
    rows = await fetch(settings.database_url, "SELECT end_user, request FROM inferences JOIN inference_content USING (id)")
    assert len(rows) == 300 and {tuple(row.values()) for row in rows} == {(ERASED, None)}
    await assert_rollups_equal_a_scan(settings.database_url)


async def test_an_erasure_goes_on_after_kills_of_the_writer(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    at = [received(2 + number / 1000, end_user="ann", tags={"mail": f"m{number % 7}"}, cost_microusd=number) for number in range(2500)]
    await record(settings, *at)
    id = await give(settings, ANN)
    chance, kills = random.Random(6), 0
    erased = -1
    while (await show(settings, id)).step in ("writers", "records") and kills < 20:
        writer = WriterProcess(settings)

        async def has_erased_more(before: int = erased) -> bool:
            nonlocal erased
            order = await show(settings, id)
            erased = order.counts.get("inferences", 0)
            return erased > before or order.step not in ("writers", "records")

        await wait_until(has_erased_more)
        await asyncio.sleep(chance.random() * 0.02)
        writer.kill()
        kills += 1
    assert kills >= 2
    async with running_writer(settings):
        done = await wait_until_complete(settings, id)
    assert done.counts["inferences"] == done.counts["contents"] == 2500, "each exactly once"
    assert not any((await check(settings, id)).left.values())
    await assert_rollups_equal_a_scan(settings.database_url, but_maxima_of_subjects=True)


class Copies:
    """The copies of an inference that gateways leave in Redis."""

    def __init__(self, settings: Settings) -> None:
        assert settings.redis_url is not None
        self._responses = ResponseCache(settings.redis_url, keep_s=600, timeout_s=10)
        self._claims = IdempotencyStore(settings.redis_url, keep_s=600, lease_s=60, grace_s=1, timeout_s=10)

    async def claim(self, id: str) -> Any:
        return await self._claims.claim(_claim_request(id))

    async def finish(self, id: str) -> None:
        assert await self._claims.finish(_claim_request(id), StoredResponse(id, id, False, SECRET.encode()))

    async def put(self, id: str) -> None:
        await self._responses.put(id, CachedResponse(TEAMS[0], SECRET.encode(), b"{}"), [f"item-{id}"])

    async def get(self, id: str) -> Any:
        return await self._responses.get(id)

    async def find_item(self, id: str) -> Any:
        return (await self._responses.find_by_item_ids(TEAMS[0], [f"item-{id}"]))[0]

    async def close(self) -> None:
        await self._responses.close()
        await self._claims.close()


def _claim_request(id: str) -> ClaimRequest:
    return ClaimRequest(claim_key(id.replace("-", "")), "owner", "digest", id, "spool")


@pytest.fixture
async def copies(settings: Settings) -> AsyncGenerator[Copies]:
    opened = Copies(settings)
    yield opened
    await opened.close()


async def test_copies_in_redis_are_erased_and_a_retry_does_not_run_again(settings: Settings, copies: Copies, valkey: Valkey):
    mine, theirs = await record(settings, of_ann(), received(0, end_user="bob"))
    for id in (mine, theirs):
        await copies.put(id)
        await copies.claim(id)
        await copies.finish(id)
    done = await carry_out(settings, ANN)
    names = ("stored_responses", "response_items", "idempotent_responses")
    assert {name: done.counts[name] for name in names} == dict.fromkeys(names, 1)
    assert (await copies.get(mine), await copies.find_item(mine), (await copies.claim(mine)).state) == (None, None, "unkept")
    assert (await copies.find_item(theirs), (await copies.claim(theirs)).state) == (theirs, "answered")
    values = [valkey.client.dump(key) for key in valkey.client.keys("*") if mine.encode() in key]
    assert not values


async def test_an_answer_that_is_kept_a_moment_after_its_record_is_not_missed(settings: Settings, copies: Copies):
    """The gateway records first, and then leaves its copies: they come while, or after, the copies of the order are erased."""
    settings = dataclasses.replace(settings, redis_timeout_s=0.2)
    id = await give(settings, ANN)
    async with running_writer(settings):
        (late,) = spool_all(settings, of_ann(0.001))
        await copies.claim(late)

        async def is_stored() -> bool:
            return bool(await fetch(settings.database_url, "SELECT 1 FROM inferences WHERE id = $1", late))

        await wait_until(is_stored)
        assert (await show(settings, id)).status == "running"
        await asyncio.sleep(0.3)
        await copies.finish(late)
        await copies.put(late)
        done = await wait_until_complete(settings, id)
    assert (await copies.get(late), (await copies.claim(late)).state) == (None, "unkept")
    assert done.counts["late"] == 1 and not any((await check(settings, id)).left.values())


async def test_an_erasure_that_fails_is_tried_again_and_holds_up_no_other(
    settings: Settings, valkey: Valkey, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(erasure_runner, "_FIRST_RETRY_S", 0.2)
    (mine, theirs) = await record(settings, of_ann(), received(0, end_user="bob"))
    # Only the rows of Ann cannot be changed.
    await fetch(
        settings.database_url,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused by the test'; END $$",
    )
    await fetch(
        settings.database_url,
        "CREATE TRIGGER refuse BEFORE UPDATE ON inferences FOR EACH ROW WHEN (OLD.end_user = 'ann') EXECUTE FUNCTION refuse()",
    )
    valkey.stop()
    failing = await give(settings, ANN)
    working = await give(settings, Selector("end_user", None, "bob"))
    async with running_writer(settings):

        async def waits_for_redis() -> bool:
            return "CopiesUnavailable" in ((await show(settings, working)).error or "")

        await wait_until(waits_for_redis)
        assert (await inference(settings, theirs))["end_user"] == ERASED
        assert "refused by the test" in ((await show(settings, failing)).error or "")
        valkey.start()
        await wait_until_complete(settings, working)
        assert (await show(settings, failing)).status == "running" and (await inference(settings, mine))["end_user"] == "ann"
        assert any((await check(settings, failing)).left.values())
        await fetch(settings.database_url, "DROP TRIGGER refuse ON inferences")
        done = await wait_until_complete(settings, failing)
    assert done.error is None and (await inference(settings, mine))["end_user"] == ERASED


async def test_a_check_finds_whatever_was_left_in_any_store(settings: Settings, copies: Copies):
    (erased, other) = await record(settings, of_ann(1), received(1, end_user="bob", tags={"mail": "bob@example.com"}))
    done = await carry_out(settings, ANN)
    other_order = await give(settings, Selector("tag", "mail", "ann@example.com"))
    clean = await check(settings, done.id, selector=ANN)
    assert (clean.matches, clean.next, any(clean.left.values())) == (True, None, False)
    assert (await check(settings, done.id, selector=Selector("end_user", None, "Ann"))).matches is False
    await copies.put(erased)
    await copies.claim(erased)
    await copies.finish(erased)
    await fetch(settings.database_url, "UPDATE inference_content SET request = 'x' WHERE id = $1", erased)
    await fetch(
        settings.database_url, "UPDATE inferences SET end_user = 'ann', tags = $2 WHERE id = $1", other, '{"mail": "ann@example.com"}'
    )
    await fetch(settings.database_url, "UPDATE subject_rollups_by_hour SET value = 'ann' WHERE value = 'bob'")
    await fetch(settings.database_url, "INSERT INTO inference_texts VALUES ($1, $2, 'sentence')", erased, TEAMS[0])
    found = await check(settings, done.id)
    copies_left = {"stored_responses": 1, "response_items": 1, "idempotent_responses": 1}
    assert found.left == {
        "inferences": 1,
        "contents": 1,
        "repetitions": 0,
        "texts": 1,
        "sums": 1,
        "feedback": 0,
        "dataset_rows": 0,
        **copies_left,
    }
    assert set(found.inferences) == {erased, other}
    by_tag = await check(settings, other_order)
    assert (by_tag.left["inferences"], by_tag.left["sums"]) == (1, 0)
    pieces = [await check(settings, done.id, budget_s=0.0)]
    while (next := pieces[-1].next) is not None:
        pieces.append(await check(settings, done.id, budget_s=0.0, from_day=next))
    assert len(pieces) > 1 and sum(piece.days for piece in pieces) == found.days
    assert sum(piece.left["inferences"] for piece in pieces) == 1 and sum(piece.left["sums"] for piece in pieces) == 1


async def test_rows_of_an_older_writer_are_found_before_it_is_complete(settings: Settings, copies: Copies):
    """It checks no orders: its rows come after the search of their day."""
    (other,) = await record(settings, received(1, end_user="bob"))
    id = await give(settings, ANN)
    settings = dataclasses.replace(settings, total_timeout_s=1.0)
    async with running_writer(settings):

        async def is_waiting() -> bool:
            return (await show(settings, id)).step == "copies"

        await wait_until(is_waiting)
        await fetch(settings.database_url, "UPDATE inferences SET end_user = 'ann' WHERE id = $1", other)
        await copies.put(other)
        done = await wait_until_complete(settings, id)
    assert (await inference(settings, other))["end_user"] == ERASED and await copies.get(other) is None
    assert done.counts["inferences"] == 1


async def test_words_of_a_team_with_search_are_erased_and_not_added_late(settings: Settings):
    await fetch(settings.database_url, "INSERT INTO teams (id, name, search) VALUES ($1, 'sales', true)", TEAMS[0])
    chat = json.dumps({"messages": [{"role": "user", "content": SECRET}]})
    words = "SELECT id::text FROM inference_texts WHERE words @@ 'sentence'"
    (mine,) = await record(settings, of_ann(1), content=chat)
    assert [row["id"] for row in await fetch(settings.database_url, words)] == [mine]
    done = await carry_out(settings, ANN)
    await record(settings, of_ann(1), content=chat)
    (theirs,) = await record(settings, received(1, end_user="bob"), content=chat)
    assert [row["id"] for row in await fetch(settings.database_url, "SELECT id::text FROM inference_texts")] == [theirs]
    assert not any((await check(settings, done.id)).left.values())
