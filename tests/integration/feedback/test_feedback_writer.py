"""Feedback on its way into Postgres: each stored once, whenever the writer is killed, and matched whichever comes first."""

import asyncio
import datetime
import random
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.domain import uuid7
from app.domain.experiments import Assignment
from app.recording.spool.spool import Spool
from app.recording.spool.writer_status import read_status
from app.settings import Settings
from app.store.postgres.database import create_database_engine
from app.store.records.feedback_sums import MetricSum, sum_metric
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.processes.writer_process import WriterProcess, drain, fetch, running_writer
from tests.support.spooled_exchanges import spool_exchange
from tests.support.spooled_feedback import KEY, TEAM, make_feedback, make_withdrawal, spool_feedback

OTHER_TEAM = str(uuid.UUID(int=101))


@pytest.fixture
def settings(tmp_path: Path, database: str) -> Settings:
    return Settings(home=tmp_path, database_url=database, drain_timeout_s=GENEROUS_S, writer_batch_rows=20, writer_batch_ms=5.0)


@pytest.fixture
def spool(settings: Settings) -> Spool:
    return Spool(settings.home / "spool", settings)


async def stored(settings: Settings, columns: str = "id::text") -> list[Any]:
    rows = await fetch(settings.database_url, f"SELECT {columns} FROM feedback ORDER BY id")
    return [row[0] if len(row) == 1 else tuple(row) for row in rows]


async def current(settings: Settings) -> list[str]:
    rows = await fetch(settings.database_url, "SELECT id::text FROM feedback WHERE is_current ORDER BY id")
    return [row["id"] for row in rows]


async def matched(settings: Settings) -> set[str]:
    return {row["id"] for row in await fetch(settings.database_url, "SELECT id::text FROM feedback WHERE matched_at IS NOT NULL")}


async def wait_for_matches(settings: Settings, ids: Sequence[str]) -> None:
    async def are_matched() -> bool:
        return await matched(settings) >= set(ids)

    await wait_until(are_matched)


async def test_feedback_is_stored_once_and_matched_whenever_the_writer_is_killed(settings: Settings, spool: Spool):
    chance = random.Random(18)
    ids: list[str] = []
    late: list[str] = []
    for _ in range(5):
        for _ in range(120):
            id = uuid7.mint()
            inference = {"id": id, "team_id": TEAM, "model": "tensorzero::model_name::small", "function": "f", "variant": "v"}
            feedback = make_feedback(id, chance.random() < 0.5)
            ids.append(feedback.id)
            match chance.randrange(3):
                case 0:  # before its inference
                    spool_feedback(spool, feedback)
                    spool_exchange(spool, b"question", b"answer", **inference)
                case 1:
                    spool_exchange(spool, b"question", b"answer", **inference)
                    spool_feedback(spool, feedback)
                case _:  # long before
                    spool_feedback(spool, feedback)
                    late.append(id)
        before = len(await stored(settings))
        writer = WriterProcess(settings)

        async def has_stored_more(before: int = before) -> bool:
            return len(await stored(settings)) > before

        await wait_until(has_stored_more)
        await asyncio.sleep(chance.random() * 0.05)
        writer.kill()
    for id in late:
        spool_exchange(spool, b"question", b"answer", id=id, team_id=TEAM)
    spool.close()
    writer = WriterProcess(settings)
    await wait_for_matches(settings, ids)
    assert writer.stop() == 0
    status = read_status(settings.home)
    assert status is not None and (status.quarantined, status.torn_records, status.unmatched_feedback) == (0, 0, 0)
    assert await stored(settings) == sorted(ids)
    assert await fetch(settings.database_url, "SELECT FROM feedback_pending") == []
    assert set(await stored(settings, "model, function, variant")) == {("small", "f", "v"), ("qwen3-4b", None, None)}
    assert not list((settings.home / "spool").glob("*.feedback"))


async def test_feedback_of_another_team_never_matches(settings: Settings, spool: Spool):
    named = "8c1de8e4-1d26-8f2c-9d56-0a7b1d4a6f11"
    exchange, episode = (spool_exchange(spool, b"question", b"answer", team_id=TEAM) for _ in range(2))
    spool_exchange(spool, b"question", b"answer", team_id=TEAM, episode_id=named)
    ours = [
        make_feedback(exchange.id),
        make_feedback(episode.episode_id, level="episode"),
        make_feedback(named, level="episode"),
    ]
    theirs = [make_feedback(each.target_id or "", level=each.level, team_id=OTHER_TEAM) for each in ours]
    nothing = [make_feedback(uuid7.mint()), make_feedback(exchange.episode_id), make_feedback(exchange.id, level="episode", metric="done")]
    spool_feedback(spool, *theirs, *nothing, *ours)
    spool.close()
    async with running_writer(settings):
        await wait_for_matches(settings, [each.id for each in ours])
    assert await matched(settings) == {each.id for each in ours}
    pending = {str(row["id"]) for row in await fetch(settings.database_url, "SELECT id FROM feedback_pending WHERE searches > 0")}
    assert pending == {each.id for each in (*theirs, *nothing)}
    assert await current(settings) == sorted(each.id for each in (*ours, *theirs, *nothing))


async def test_feedback_that_has_waited_for_days_matches_as_soon_as_its_inference_is_stored(settings: Settings, spool: Spool):
    received_us = (uuid7.created_ms(uuid7.mint()) - 3 * 86_400_000) * 1000
    id, episode_id = uuid7.mint(received_us), uuid7.mint(received_us)
    waiting = [make_feedback(id, received_us=received_us), make_feedback(episode_id, level="episode")]
    spool_feedback(spool, *waiting)
    async with running_writer(settings):

        async def was_looked_for() -> bool:
            rows = await fetch(settings.database_url, "SELECT FROM feedback_pending WHERE searches > 0")
            return len(rows) == 2

        await wait_until(was_looked_for)
        await fetch(settings.database_url, "UPDATE feedback_pending SET check_at = now() + interval '6 hours'")
        spool_exchange(spool, b"question", b"answer", id=id, episode_id=episode_id, team_id=TEAM, received_us=received_us)
        await wait_for_matches(settings, [each.id for each in waiting])
        spool.close()


async def test_the_newest_counts_in_whichever_order_they_are_stored(settings: Settings, spool: Spool):
    chance = random.Random(4)
    expected: list[str] = []
    events: list[Any] = []
    for _ in range(30):
        target = uuid7.mint()
        first, second = make_feedback(target, True), make_feedback(target, False)
        corrected = make_feedback(target, True, feedback_id=first.id, action="correct")
        comments = [make_feedback(target, "Good", metric="comment", kind="comment") for _ in range(2)]
        other_key = make_feedback(target, False, key_id=str(uuid.UUID(int=201)))
        other_metric = make_feedback(target, False, metric="correct")
        withdrawn = make_feedback(target, False, metric="polite")
        others = [make_withdrawal(withdrawn), make_withdrawal(second), make_withdrawal(other_metric, team_id=OTHER_TEAM)]
        moved = make_feedback(uuid7.mint(), "Better", metric="comment", kind="comment", feedback_id=comments[0].id, action="correct")
        expected += [each.id for each in (corrected, comments[1], other_key, other_metric, moved)]
        events += [first, second, corrected, *comments, other_key, other_metric, withdrawn, *others, moved]
    chance.shuffle(events)
    for at in range(0, len(events), 7):
        spool_feedback(spool, *events[at : at + 7])
    spool.close()
    await drain(settings)
    assert await stored(settings) == sorted(each.id for each in events)
    assert await current(settings) == sorted(expected)


async def test_repetitions_are_stored_once_by_several_writers_at_once(settings: Settings, tmp_path: Path):
    one = [make_feedback(uuid7.mint(), feedback_id=uuid7.mint(), is_repeatable=True) for _ in range(200)]
    spools: list[Settings] = []
    for machine in range(3):
        each = Settings(home=tmp_path / str(machine), database_url=settings.database_url, drain_timeout_s=GENEROUS_S, writer_batch_rows=20)
        spool = Spool(each.home / "spool", each)
        for feedback in one:
            again = make_feedback(feedback.target_id or "", feedback_id=feedback.feedback_id, is_repeatable=True)
            spool_feedback(spool, again, make_feedback(feedback.target_id or "", feedback_id=feedback.feedback_id, is_repeatable=True))
        spool.close()
        spools.append(each)
    await asyncio.gather(*(drain(each) for each in spools))
    assert sorted(await stored(settings, "feedback_id::text")) == sorted(each.feedback_id for each in one)
    assert len(await current(settings)) == len(one)


async def test_a_record_that_cannot_be_stored_is_set_aside_alone(settings: Settings, spool: Spool):
    target = uuid7.mint()
    good = make_feedback(target)
    old_us = int((datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1000)).timestamp() * 1e6)
    bad = [make_feedback(target, team_id="nobody"), make_feedback(target, received_us=old_us), make_feedback(target, id=good.id)]
    for each in (good, *bad):
        spool_feedback(spool, each)
    spool.close()
    status = await drain(settings)
    assert (status.quarantined, status.feedback) == (3, 1)
    assert await stored(settings) == [good.id]
    assert len(list((settings.home / "quarantine").iterdir())) == 3


async def test_keys_and_teams_are_kept(settings: Settings, spool: Spool):
    feedback = make_feedback(uuid7.mint(), "Thanks", metric="comment", kind="comment", content="masked", tags={"app": "chat"})
    spool_feedback(spool, feedback)
    spool.close()
    await drain(settings)
    [row] = await fetch(settings.database_url, "SELECT *, received_at AS at FROM feedback")
    assert (str(row["team_id"]), str(row["key_id"]), row["metric"], row["kind"], row["level"]) == (
        TEAM,
        KEY,
        "comment",
        "comment",
        "inference",
    )
    assert (row["value"], row["number"], row["content"], row["tags"]) == ('"Thanks"', None, "masked", '{"app": "chat"}')
    assert row["at"].timestamp() == pytest.approx(feedback.received_us / 1e6, abs=1e-5)


async def test_sums_keep_requests_apart_that_do_not_count_in_their_experiment(settings: Settings, spool: Spool):
    sent: list[str] = []
    for at, why in enumerate((None, None, "pinned", "holdout")):
        arm = {"model": "m", "variant": "large", "assignment": Assignment("e", 1, "large", 0.5, why)}
        exchange = spool_exchange(spool, b"question", b"answer", team_id=TEAM, **arm)
        feedback = make_feedback(exchange.id, at / 4, metric="score", kind="float")
        spool_feedback(spool, feedback)
        sent.append(feedback.id)
    spool.close()
    async with running_writer(settings):
        await wait_for_matches(settings, sent)
    database = create_database_engine(settings.database_url)
    async with database.connect() as connection:
        sums, of_others = await sum_metric(connection, "score", 1), await sum_metric(connection, "score", 1, ["others"])
    await database.dispose()
    assert sums == [
        MetricSum("m", None, "large", None, 2, 0.125, 0, 0.25),
        MetricSum("m", None, "large", "holdout", 1, 0.75, 0.75, 0.75),
        MetricSum("m", None, "large", "pinned", 1, 0.5, 0.5, 0.5),
    ]
    assert of_others == []


async def test_other_feedback_with_the_same_id_is_kept_apart_and_does_not_count(settings: Settings, spool: Spool):
    target, id = uuid7.mint(), uuid7.mint()
    words: dict[str, Any] = {"metric": "comment", "kind": "comment", "feedback_id": id, "is_repeatable": True}
    repeats: list[Any] = [
        make_feedback(target, "Good", **words),
        make_feedback(target, "Bad", **words),
        make_feedback(target, "Good", **words),
        make_feedback(target, "Bad", **words),
        make_feedback(target, True, feedback_id=id, is_repeatable=True),
        make_feedback(uuid7.mint(), "Good", **words),
        make_feedback(target, "Good", **words, tags={"app": "x"}),
        make_feedback(target, "Good", **words, team_id=OTHER_TEAM),  # whose feedback has nothing to do with it
    ]
    first, *others, of_another_team = repeats
    conflicts = [others[at].id for at in (0, 3, 4, 5)]
    for batch in (repeats, others):  # in one batch, and again in another
        spool_feedback(spool, *batch)
        spool.close()
        status = await drain(settings)
        spool = Spool(settings.home / "spool", settings)
    spool.close()
    assert status.conflicting_feedback == 4  # of the second batch, none of which is stored again
    rows = await fetch(settings.database_url, "SELECT id::text, action, is_current FROM feedback ORDER BY id")
    assert {tuple(row) for row in rows} == {
        *((each.id, "create", True) for each in (first, of_another_team)),
        *((id, "conflict", False) for id in conflicts),
    }
    newer = make_feedback(target, False)
    flood = [make_feedback(target, f"No. {at}", **words) for at in range(40)]
    withdrawn = make_withdrawal(first)
    spool = Spool(settings.home / "spool", settings)
    spool_feedback(spool, newer, withdrawn, *flood)
    spool.close()
    await drain(settings)
    assert await current(settings) == sorted([of_another_team.id, newer.id])
    assert len(await fetch(settings.database_url, "SELECT FROM feedback WHERE action = 'conflict'")) == 20


async def test_a_value_that_is_written_in_another_way_is_no_conflict(settings: Settings, spool: Spool):
    target, id = uuid7.mint(), uuid7.mint()
    example: dict[str, Any] = {"metric": "demonstration", "kind": "demonstration", "feedback_id": id, "is_repeatable": True}
    first = make_feedback(target, {"a": 1, "b": [1.0]}, **example)
    spool_feedback(spool, first, make_feedback(target, {"b": [1], "a": 1.0}, **example))
    hidden: dict[str, Any] = {**example, "feedback_id": uuid7.mint(), "content": "redacted"}
    unknown = [msgspec.structs.replace(make_feedback(target, text, **hidden), value=None) for text in ("a", "b")]
    spool_feedback(spool, *unknown)
    spool.close()
    assert (await drain(settings)).conflicting_feedback == 0
    assert await stored(settings) == sorted([first.id, unknown[0].id])
