"""Versions of datasets, built of real records: what is selected, what is skipped and why, kills, and what erasures take."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.datasets import builder as builder_module
from app.datasets import piece as piece_module
from app.datasets.builder import DatasetBuilder
from app.datasets.export import export_rows
from app.domain import uuid7
from app.domain.errors import BoundReached, InvalidKeyField
from app.domain.experiments import Assignment
from app.recording.erasure.hashes import Selector
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.datasets import builds as dataset_builds
from app.store.datasets import datasets as store
from app.store.datasets import rows as dataset_rows
from app.store.datasets import versions
from app.store.datasets.selection import FeedbackCondition, Selection
from app.store.datasets.versions import DatasetVersion, NotPossible
from app.store.formats.content_packing import unpack
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.audit_log import SYSTEM
from app.store.postgres.database import create_database_engine, transaction
from app.store.records import inference_queries
from tests.integration.recording.test_erasures import (
    ANN,
    carry_out,
    check,
    give,
    received,
    settings,
    valkey,
    valkey_server,
    wait_until_complete,
)
from tests.integration.recording.test_erasures import show as show_erasure
from tests.integration.usage.test_rollups import TEAMS
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import WriterProcess, drain, fetch, running_writer
from tests.support.spooled_exchanges import spool_exchange
from tests.support.spooled_feedback import make_feedback, spool_feedback

__all__ = ["settings", "valkey", "valkey_server"]

NOTHING: dict[str, Any] = {}
METRICS = {
    "helpful": {"kind": "boolean", "level": "inference", "optimize": "max"},
    "score": {"kind": "float", "level": "inference", "optimize": "max"},
    "solved": {"kind": "boolean", "level": "episode", "optimize": "max"},
}


@pytest.fixture
async def engine(settings: Settings) -> AsyncGenerator[AsyncEngine]:
    engine = create_database_engine(settings.database_url)
    for name, config in METRICS.items():
        await fetch(settings.database_url, "INSERT INTO metrics (name, config) VALUES ($1, $2::jsonb)", name, json.dumps(config))
    yield engine
    await engine.dispose()


def chat(words: str) -> bytes:
    return json.dumps({"model": "qwen3-4b", "messages": [{"role": "user", "content": words}]}).encode()


def answer(words: str) -> bytes:
    message = {"role": "assistant", "content": words}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}).encode()


async def record(settings: Settings, *exchanges: dict[str, Any], days_ago: float = 0) -> list[str]:
    """Chats that are stored, each with words of its own; returns their ids, the newest first."""
    spool = Spool(settings.home / "spool", settings)
    ids: list[str] = []
    for number, fields in enumerate(exchanges):
        made = {"route": "openai_chat", **received(days_ago + number / 1000), **fields}
        spooled = spool_exchange(spool, chat(f"question {number}"), answer(f"answer {number}"), **made)
        ids.append(spooled.id)
    spool.close()
    await drain(settings)
    return ids


async def say(settings: Settings, *feedback: Any) -> None:
    spool = Spool(settings.home / "spool", settings)
    spool_feedback(spool, *feedback)
    spool.close()
    await drain(settings)


async def select(settings: Settings, selection: Selection, name: str = "d") -> DatasetVersion:
    async with transaction(settings.database_url) as connection:
        dataset = await store.find_dataset(connection, name, lock=True)
        dataset = dataset or await store.create_dataset(connection, SYSTEM, name, team=None, description=None)
        return await versions.create_version(connection, SYSTEM, dataset, selection, keep_hours_days=0)


async def show(settings: Settings, number: int = 1, name: str = "d") -> DatasetVersion:
    async with transaction(settings.database_url) as connection:
        dataset = await store.find_dataset(connection, name)
        assert dataset is not None
        found = await versions.find_version(connection, dataset, number)
    assert found is not None
    return found.shown


async def build(settings: Settings, engine: AsyncEngine, selection: Selection) -> DatasetVersion:
    version = await select(settings, selection)
    await work(settings, engine)
    return await show(settings, version.number)


async def work(settings: Settings, engine: AsyncEngine) -> None:
    builder = DatasetBuilder(settings, engine)
    while await builder.advance():
        pass
    await builder.stop()


async def rows(settings: Settings, number: int = 1) -> list[dict[str, Any]]:
    query = """
        SELECT r.* FROM dataset_rows r JOIN dataset_versions v ON v.id = r.version_id JOIN datasets d ON d.id = v.dataset_id
        WHERE v.number = $1 AND d.deleted_at IS NULL ORDER BY r.number
    """
    found = [dict(row) for row in await fetch(settings.database_url, query, number)]
    for row in found:
        for name in ("request", "response", "demonstration"):
            row[name] = None if row[name] is None else json.loads(unpack(row[name]))
    return found


async def test_rows_are_copies_of_what_the_selection_matches(settings: Settings, engine: AsyncEngine):
    ids = await record(settings, {"tags": {"a": "1", "b": "2"}}, {"tags": {"a": "1"}}, {"model": "other"}, {"outcome": "failed"})
    version = await build(settings, engine, Selection(model="qwen3-4b", tags={"a": "1", "b": "2"}))
    assert (version.status, version.rows, version.examined, version.error) == ("complete", 1, 2, None)
    [row] = await rows(settings)
    assert (str(row["inference_id"]), row["output"], row["split"]) == (ids[0], "response", None)
    assert row["request"] == {"messages": [{"role": "user", "content": "question 0"}]}
    assert row["response"] == {"role": "assistant", "content": "answer 0"}
    assert version.counts.formats == {"chat": 1} and version.counts.outputs == {"response": 1}


async def test_conditions_of_feedback_select(settings: Settings, engine: AsyncEngine):
    ids = await record(settings, *(NOTHING for _ in range(4)))
    episodes = {
        str(row["id"]): str(row["episode_id"]) for row in await fetch(settings.database_url, "SELECT id, episode_id FROM inferences")
    }
    of_team: Any = {"team_id": TEAMS[0]}
    score: Any = {"metric": "score", "kind": "float", **of_team}
    await say(
        settings,
        make_feedback(ids[0], **of_team),
        make_feedback(ids[1], False, **of_team),
        make_feedback(ids[2], **{**of_team, "team_id": TEAMS[1]}),
        make_feedback(ids[0], 0.9, **score),
        make_feedback(ids[1], 0.5, **score),
        make_feedback(episodes[ids[3]], metric="solved", level="episode", **of_team),
    )
    cases: list[tuple[list[FeedbackCondition], list[str]]] = [
        ([FeedbackCondition(metric="helpful", value=True)], [ids[0]]),
        ([FeedbackCondition(metric="helpful", value=False)], [ids[1]]),
        ([FeedbackCondition(metric="score", min=0.5)], [ids[0], ids[1]]),
        ([FeedbackCondition(metric="score", min=0.4, max=0.6)], [ids[1]]),
        ([FeedbackCondition(metric="solved", value=True)], [ids[3]]),
        ([FeedbackCondition(metric="helpful", value=True), FeedbackCondition(metric="score", min=0.8)], [ids[0]]),
    ]
    for number, (conditions, expected) in enumerate(cases, 1):
        await build(settings, engine, Selection(feedback=tuple(conditions)))
        assert [str(row["inference_id"]) for row in await rows(settings, number)] == expected
    for wrong in (
        FeedbackCondition(metric="none", value=True),
        FeedbackCondition(metric="helpful", min=0.5),
        FeedbackCondition(metric="score", value=True),
        FeedbackCondition(metric="demonstration", value=True),
    ):
        with pytest.raises(InvalidKeyField):
            await select(settings, Selection(feedback=(wrong,)))


async def test_newest_demonstration_is_the_output_where_there_is_one(settings: Settings, engine: AsyncEngine):
    ids = await record(settings, {}, {}, {"outcome": "failed"})
    shown: Any = {"metric": "demonstration", "kind": "demonstration", "team_id": TEAMS[0]}
    first = make_feedback(ids[0], "old", **shown)
    await say(
        settings,
        first,
        make_feedback(ids[0], "new", id=uuid7.mint(first.received_us + 1_000_000), **shown),
        make_feedback(ids[2], "instead", **shown),
    )
    version = await build(settings, engine, Selection(output="demonstration", outcome=None))
    found = await rows(settings)
    assert [row["demonstration"]["content"] for row in found] == ["new", "instead"]
    assert [row["response"] and row["response"]["content"] for row in found] == ["answer 0", None]
    assert version.counts.formats == {"chat": 2, "preference": 1} and version.counts.skipped == {}
    either = await build(settings, engine, Selection(output="demonstration_or_response", outcome=None))
    assert either.counts.outputs == {"demonstration": 2, "response": 1}
    response = await build(settings, engine, Selection(outcome=None))
    assert (response.counts.outputs, response.counts.skipped) == ({"response": 2}, {"no_response": 1})


async def test_sample_and_split_are_the_same_each_time(settings: Settings, engine: AsyncEngine):
    await record(settings, *(NOTHING for _ in range(60)))
    for seed in (1, 1, 2):
        await build(settings, engine, Selection(sample=0.5, seed=seed, validation=0.3))
    taken = [{str(row["inference_id"]): row["split"] for row in await rows(settings, number)} for number in (1, 2, 3)]
    assert taken[0] == taken[1] and taken[0].keys() != taken[2].keys()
    assert 15 < len(taken[0]) < 45 and {*taken[0].values()} == {"train", "validation"}
    assert all(taken[0][id] == taken[2][id] for id in taken[0].keys() & taken[2].keys()), "an episode keeps its split"
    version = await show(settings, 1)
    assert sum(version.counts.splits.values()) == version.rows


async def test_the_newest_come_first_up_to_the_most_rows(settings: Settings, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(builder_module, "PAGE_ROWS", 4)
    ids = await record(settings, *(NOTHING for _ in range(15)))
    version = await build(settings, engine, Selection(max_rows=10))
    assert (version.status, version.rows) == ("complete", 10)
    assert [str(row["inference_id"]) for row in await rows(settings)] == ids[:10]
    everything = await build(settings, engine, Selection())
    assert (everything.rows, everything.examined) == (15, 15)


async def test_what_a_team_does_not_keep_is_skipped_with_the_reason(settings: Settings, engine: AsyncEngine):
    policies = ("full", "none", "redacted")
    ids = await record(settings, *({"content": policy} for policy in policies), {"route": "openai_embeddings"}, {})
    await fetch(settings.database_url, "DELETE FROM inference_content WHERE id = $1", ids[4])
    version = await build(settings, engine, Selection())
    assert version.rows == 1
    assert version.counts.skipped == {"not_kept": 1, "redacted": 1, "not_a_chat": 1, "expired": 1}
    listed = await fetch(settings.database_url, "SELECT inference_id::text AS id, reason FROM dataset_skips")
    assert {row["id"]: row["reason"] for row in listed} == dict(
        zip(ids[1:], ("not_kept", "redacted", "not_a_chat", "expired"), strict=True)
    )


async def test_what_templates_multiply_beyond_their_memory_is_skipped_with_the_bound(settings: Settings, engine: AsyncEngine):
    schema = {"type": "object", "properties": {"items": {"type": "array"}, "n": {"type": "integer"}}, "required": ["items", "n"]}
    config = {"variants": {"v": {"model": "m", "system_template": "{{ items * n }}"}}, "schemas": {"system": schema}}
    await fetch(
        settings.database_url,
        "INSERT INTO snapshots (hash, document) VALUES ($1, $2::jsonb)",
        "fedcba9876543210",
        json.dumps({"functions": {"f": config}}),
    )
    spool = Spool(settings.home / "spool", settings)
    for number, n in enumerate((2, 50_000_000)):
        given = {"system": {"items": ["x" * 100_000 if n > 2 else "x"], "n": n}}
        sent = json.dumps({"model": "f", "messages": [{"role": "user", "content": "Hi"}], "narthex::input": given}).encode()
        of_function = {"snapshot": "fedcba9876543210", "model": "m", "function": "f", "variant": "v", "served_variant": "v"}
        spool_exchange(spool, sent, answer("Hello."), **{"route": "openai_chat", **received(number / 1000), **of_function})
    spool.close()
    await drain(settings)
    version = await build(settings, engine, Selection())
    assert (version.rows, version.counts.skipped) == (1, {"template": 1}), version
    (row,) = await rows(settings)
    assert row["request"]["messages"][0] == {"role": "system", "content": "['x', 'x']"}
    (skip,) = await fetch(settings.database_url, "SELECT reason, detail FROM dataset_skips")
    assert skip["reason"] == "template" and "512 MiB of memory" in skip["detail"]


async def test_what_a_team_does_not_keep_any_more_is_skipped(settings: Settings, engine: AsyncEngine):
    """The records stay as they are, but no copy of them is made that would stay for longer."""
    add = "INSERT INTO teams (id, name, content) VALUES ($1::uuid, $2, $3)"
    for team, policy in zip(TEAMS, ("none", "masked", "full"), strict=True):
        await fetch(settings.database_url, add, team, f"t-{policy}", policy)
    recorded = [{"team_id": team, "content": content} for team in TEAMS for content in ("full", "masked")]
    ids = await record(settings, *recorded)
    version = await build(settings, engine, Selection(model="qwen3-4b"))
    assert version.counts.skipped == {"team_policy": 3}, version
    assert {str(row["inference_id"]) for row in await rows(settings)} == {ids[3], ids[4], ids[5]}


async def test_export_of_a_version_that_is_deleted_meanwhile_breaks_off(
    settings: Settings, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
):
    """It would end as if it were whole, with the rows that were left."""
    monkeypatch.setattr(dataset_rows, "_EXPORT_ROWS", 2)
    await record(settings, *(NOTHING for _ in range(6)))
    await build(settings, engine, Selection(model="qwen3-4b"))
    async with transaction(settings.database_url) as connection:
        dataset = await store.find_dataset(connection, "d", lock=True)
        assert dataset is not None
        version = await versions.find_version(connection, dataset, 1)
    assert version is not None
    pieces = export_rows(lambda: admin_transaction(engine, 30, read_only=True), version.id, "chat", None)
    assert (await anext(pieces)).count(b"\n") == 2
    async with transaction(settings.database_url) as connection:
        await versions.end_version(connection, SYSTEM, dataset, version, "deleted")
    await work(settings, engine)
    with pytest.raises(NotPossible, match="deleted while"):
        await anext(pieces)


async def test_selection_of_nothing_is_refused_with_the_reason(settings: Settings, engine: AsyncEngine):
    await record(settings, {"content": "none"}, {"content": "redacted"})
    for selection, reason in (
        (Selection(model="unknown"), "No inference matches"),
        (Selection(tags={"a": "1"}), "No inference matches"),
        (Selection(feedback=(FeedbackCondition(metric="helpful", value=True),)), "none of them the conditions"),
        (Selection(), r"the content of none is kept \(content: none, redacted\)"),
        (Selection(team="nobody"), "no team"),
        (Selection(since="2026-01-02T00:00:00+00:00", until="2026-01-01T00:00:00+00:00"), "later"),
    ):
        with pytest.raises(InvalidKeyField, match=reason):
            await select(settings, selection)


async def test_no_team_can_take_the_places_of_another(settings: Settings, engine: AsyncEngine):
    for id, team in zip(TEAMS, ("busy", "patient"), strict=False):
        await fetch(settings.database_url, "INSERT INTO teams (id, name) VALUES ($1, $2)", id, team)
    await record(settings, NOTHING, {"team_id": TEAMS[1]})
    async with transaction(settings.database_url) as connection:
        for team in ("busy", "patient", None):
            await store.create_dataset(connection, SYSTEM, f"of {team}", team=team, description=None)
    for name, most in (("of busy", versions.MAX_BUILDING_OF_TEAM), ("of patient", 1), ("of None", versions.MAX_BUILDING)):
        for _ in range(most):
            await select(settings, Selection(), name)
    with pytest.raises(versions.NotPossible, match=r"5 versions of datasets of the team 'busy' are being built already"):
        await select(settings, Selection(), "of busy")
    with pytest.raises(versions.NotPossible, match="20 versions of datasets of all teams"):
        await select(settings, Selection(), "of None")
    await work(settings, engine)
    await select(settings, Selection(), "of busy")


async def test_how_many_versions_are_kept_is_bounded_by_team(settings: Settings, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(versions, "MAX_KEPT_OF_TEAM", 3)
    monkeypatch.setattr(versions, "MAX_KEPT", 2)
    for id, team in zip(TEAMS, ("busy", "patient"), strict=False):
        await fetch(settings.database_url, "INSERT INTO teams (id, name) VALUES ($1, $2)", id, team)
    await record(settings, NOTHING, {"team_id": TEAMS[1]})
    async with transaction(settings.database_url) as connection:
        for name, team in (("one of busy", "busy"), ("other of busy", "busy"), ("of patient", "patient")):
            await store.create_dataset(connection, SYSTEM, name, team=team, description=None)
    for name in ("one of busy", "other of busy", "other of busy", "of all", "of all"):
        await select(settings, Selection(), name)
    with pytest.raises(BoundReached, match="3 versions of datasets of the team 'busy', which is the most that are kept: delete some"):
        await select(settings, Selection(), "one of busy")
    with pytest.raises(BoundReached, match="There are 2 versions of datasets of all teams"):
        await select(settings, Selection(), "of all")
    await select(settings, Selection(), "of patient")
    async with transaction(settings.database_url) as connection:
        dataset = await store.find_dataset(connection, "one of busy", lock=True)
        assert dataset is not None
        version = await versions.find_version(connection, dataset, 1, lock=True)
        assert version is not None
        await versions.end_version(connection, SYSTEM, dataset, version, "deleted")
    assert (await select(settings, Selection(), "one of busy")).number == 2


async def test_a_dataset_gives_out_so_many_numbers_at_most(settings: Settings, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(versions, "MAX_NUMBER", 1)
    await record(settings, NOTHING)
    await select(settings, Selection())
    async with transaction(settings.database_url) as connection:
        dataset = await store.find_dataset(connection, "d", lock=True)
        assert dataset is not None
        version = await versions.find_version(connection, dataset, 1, lock=True)
        assert version is not None
        await versions.end_version(connection, SYSTEM, dataset, version, "deleted")
    with pytest.raises(BoundReached, match="'d' has had 1 versions, deleted ones too, which is the most that a dataset has: begin another"):
        await select(settings, Selection())


async def test_no_team_can_take_the_names_of_others(settings: Settings, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store, "MAX_DATASETS_OF_TEAM", 2)
    monkeypatch.setattr(store, "MAX_DATASETS", 3)
    for id, team in zip(TEAMS, ("busy", "patient"), strict=False):
        await fetch(settings.database_url, "INSERT INTO teams (id, name) VALUES ($1, $2)", id, team)
    async with transaction(settings.database_url) as connection:
        for team, most in (("busy", 2), (None, 3), ("patient", 1)):
            for number in range(most):
                await store.create_dataset(connection, SYSTEM, f"{team} {number}", team=team, description=None)
        with pytest.raises(InvalidKeyField, match="2 datasets of the team 'busy' already"):
            await store.create_dataset(connection, SYSTEM, "one more", team="busy", description=None)
        with pytest.raises(InvalidKeyField, match="3 datasets of all teams already"):
            await store.create_dataset(connection, SYSTEM, "one more", team=None, description=None)
        await store.create_dataset(connection, SYSTEM, "one more", team="patient", description=None)
        deleted = await store.find_dataset(connection, "busy 0")
        assert deleted is not None
        await store.delete_dataset(connection, SYSTEM, deleted)
        await store.create_dataset(connection, SYSTEM, "in its place", team="busy", description=None)


@pytest.mark.parametrize("matching", [1, 0])
async def test_what_hardly_matches_is_searched_for_in_steps_to_its_end(
    settings: Settings, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch, matching: int
):
    """The selection is by an experiment, of which sums do not tell in which hours it was."""
    monkeypatch.setattr(inference_queries, "SEARCHED_ROWS", 20)
    for module in (builder_module, piece_module):
        monkeypatch.setattr(module, "PIECE_S", 0.0)
    monkeypatch.setattr(versions, "_FIRST_SEARCH_S", 0.0)
    assignment = Assignment("rare", 1, "a", 0.5, None, "unit", "minted")
    oldest = [{"assignment": assignment if number < matching else None} for number in range(5)]
    await record(settings, *(NOTHING for _ in range(300)))
    ids = await record(settings, *oldest, days_ago=9)
    await select(settings, Selection(experiment="rare"))
    builder = DatasetBuilder(settings, engine)
    searched_to: list[str] = []
    while await builder.advance():
        shown = await show(settings)
        if shown.status == "building":
            assert shown.searched_to is not None
            searched_to.append(shown.searched_to)
    await builder.stop()
    assert len(searched_to) > 300 / 20 and searched_to == sorted(searched_to, reverse=True)
    done = await show(settings)
    assert (done.status, done.rows) == (("complete", 1) if matching else ("failed", 0))
    assert [str(row["inference_id"]) for row in await rows(settings)] == ids[:matching]


async def test_version_without_rows_fails_with_the_reason(settings: Settings, engine: AsyncEngine):
    await record(settings, {"route": "openai_embeddings"})
    version = await build(settings, engine, Selection())
    assert (version.status, version.rows) == ("failed", 0)
    assert version.error == "No inference that matched could become a row: 1 because it came by an API that is no chat and no completion."


async def test_conversation_is_selected_with_its_earlier_turns(settings: Settings, engine: AsyncEngine):
    first, second = received(0.01), received(0)
    output = [{"type": "message", "role": "assistant", "id": "msg_1", "content": [{"type": "output_text", "text": "Hello Ann."}]}]
    said: Any = {"object": "response", "created_at": 1, "status": "completed", "model": "m", "output": output}
    fields: Any = {"route": "openai_responses"}
    spool = Spool(settings.home / "spool", settings)
    bodies = [{"model": "m", "input": "I am Ann."}, {"model": "m", "input": "Who am I?", "previous_response_id": f"resp_{first['id']}"}]
    for made, body in zip((first, second), bodies, strict=True):
        response = json.dumps({"id": f"resp_{made['id']}", **said}).encode()
        spool_exchange(spool, json.dumps(body).encode(), response, **{**made, **fields, "end_user": "ann" if made is first else "bob"})
    spool.close()
    await drain(settings)
    await build(settings, engine, Selection(until=None))
    found = {str(row["inference_id"]): row for row in await rows(settings)}
    messages = found[second["id"]]["request"]["messages"]
    assert [each["content"] for each in messages] == ["I am Ann.", "Hello Ann.", "Who am I?"]
    # Ann's words are in the later turn, too.
    done = await carry_out(settings, ANN)
    assert done.counts["dataset_rows"] == 2
    assert ((await show(settings)).rows, (await show(settings)).erased) == (0, 2)


async def test_erasure_takes_rows_whose_inferences_are_gone_already(settings: Settings, engine: AsyncEngine):
    ids = await record(settings, {"end_user": "ann"}, {"end_user": "bob"}, {"end_user": "ann"}, days_ago=40)
    before = await build(settings, engine, Selection())
    second = await build(settings, engine, Selection())
    for table in ("inferences", "inference_content"):
        await fetch(settings.database_url, f"DELETE FROM {table}")  # as when they have expired
    done = await carry_out(settings, ANN)
    assert done.counts["dataset_rows"] == 4
    for number in (1, 2):
        version = await show(settings, number)
        assert (version.number, version.status, version.rows, version.erased) == (number, "complete", 1, 2)
        assert version.counts.formats == {"chat": 1} and version.counts.outputs == {"response": 1}
        assert 0 < version.size_bytes < (before if number == 1 else second).size_bytes
        assert [str(row["inference_id"]) for row in await rows(settings, number)] == [ids[1]]
    checked = await check(settings, done.id)
    assert checked.left == dict.fromkeys(checked.left, 0)
    source = "UPDATE dataset_sources SET end_user = 'ann'"
    await fetch(settings.database_url, source)
    assert (await check(settings, done.id)).left["dataset_rows"] == 2


async def test_erasure_of_a_tag_takes_its_rows_its_demonstrations_and_its_name_in_selections(settings: Settings, engine: AsyncEngine):
    ids = await record(settings, {"tags": {"mail": "ann@x.test"}}, {"tags": {"mail": "bob@x.test"}}, {})
    shown: Any = {"metric": "demonstration", "kind": "demonstration", "team_id": TEAMS[0]}
    await say(settings, make_feedback(ids[1], "by Ann", tags={"mail": "ann@x.test"}, **shown))
    await build(settings, engine, Selection())
    await build(settings, engine, Selection(tags={"mail": "ann@x.test"}))
    done = await carry_out(settings, Selector("tag", "mail", "ann@x.test"))
    assert done.counts["dataset_rows"] == 3
    assert [str(row["inference_id"]) for row in await rows(settings)] == [ids[2]]
    assert (await show(settings, 2)).selection.tags == {"mail": "(erased)"}


async def test_erasure_of_one_team_leaves_the_rows_of_others(settings: Settings, engine: AsyncEngine):
    for team, id in (("search", TEAMS[0]), ("sales", TEAMS[1])):
        await fetch(settings.database_url, "INSERT INTO teams (id, name) VALUES ($1, $2)", id, team)
    ids = await record(settings, {"end_user": "ann"}, {"end_user": "ann", "team_id": TEAMS[1]})
    await build(settings, engine, Selection())
    done = await carry_out(settings, ANN, team="search")
    assert [str(row["inference_id"]) for row in await rows(settings)] == [ids[1]]
    assert (await check(settings, done.id)).left["dataset_rows"] == 0


async def test_what_is_erased_is_not_selected_and_later_records_stay(settings: Settings, engine: AsyncEngine):
    await record(settings, {"end_user": "ann"}, {"end_user": "bob"})
    await carry_out(settings, ANN)
    version = await build(settings, engine, Selection())
    assert (version.rows, version.counts.skipped) == (1, {"erased": 1})


async def test_erasure_waits_for_a_copy_of_what_it_has_just_erased(
    settings: Settings, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
):
    await record(settings, {"end_user": "ann"}, {"end_user": "bob"})
    await select(settings, Selection())
    copied, may_store, store_piece = asyncio.Event(), asyncio.Event(), dataset_builds.store_piece

    async def store_later(*arguments: Any) -> None:
        copied.set()
        await may_store.wait()
        await store_piece(*arguments)

    monkeypatch.setattr(dataset_builds, "store_piece", store_later)
    builder = DatasetBuilder(settings, engine)
    piece = asyncio.create_task(builder.advance())
    await copied.wait()
    order = await give(settings, ANN)

    async def is_waiting() -> bool:
        waiting = await fetch(settings.database_url, "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return bool(waiting) and (await show_erasure(settings, order)).step == "datasets"

    async with running_writer(settings):
        await wait_until(is_waiting)
        may_store.set()
        await piece
        done = await wait_until_complete(settings, order)
    await builder.stop()
    assert done.counts["dataset_rows"] == 1
    assert ((await show(settings)).rows, (await show(settings)).erased) == (1, 1)


async def test_building_goes_on_where_a_killed_writer_was(settings: Settings, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch):
    ids = await record(settings, *(NOTHING for _ in range(900)))
    version = await select(settings, Selection(validation=0.1))
    kills = 0

    async def has_ended() -> bool:
        nonlocal kills
        shown = await show(settings)
        if shown.status == "building" and kills < 12 and shown.rows >= kills * 60:
            kills += 1
            writer.kill()
            await asyncio.sleep(0)
            restart()
        return shown.status != "building"

    def restart() -> None:
        nonlocal writer
        writer = WriterProcess(settings)

    writer = WriterProcess(settings)
    try:
        await wait_until(has_ended)
    finally:
        writer.kill()
    done = await show(settings)
    assert (done.number, done.status, done.rows, done.examined, done.error) == (version.number, "complete", 900, 900, None)
    assert [str(row["inference_id"]) for row in await rows(settings)] == ids
    assert kills > 1, "it was killed while it worked"


async def test_cancelled_and_deleted_versions_lose_their_rows_and_keep_their_numbers(
    settings: Settings, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(builder_module, "PAGE_ROWS", 5)
    await record(settings, *(NOTHING for _ in range(12)))
    await select(settings, Selection())
    builder = DatasetBuilder(settings, engine)
    await builder.advance()
    async with transaction(settings.database_url) as connection:
        dataset = await store.find_dataset(connection, "d", lock=True)
        assert dataset is not None
        found = await versions.find_version(connection, dataset, 1, lock=True)
        assert found is not None and found.shown.rows == 5
        await versions.end_version(connection, SYSTEM, dataset, found, "cancelled")
    while await builder.advance():
        pass
    await builder.stop()
    assert ((await show(settings)).status, await rows(settings)) == ("cancelled", [])
    version = await build(settings, engine, Selection())
    assert (version.number, version.rows) == (2, 12)
    async with transaction(settings.database_url) as connection:
        await store.delete_dataset(connection, SYSTEM, dataset)
        assert await store.find_dataset(connection, "d") is None
        await store.create_dataset(connection, SYSTEM, "d", team=None, description=None)
    await work(settings, engine)
    for table in ("dataset_rows", "dataset_sources", "dataset_skips"):
        assert await fetch(settings.database_url, f"SELECT FROM {table}") == []


async def test_piece_that_fails_is_tried_again_with_its_error_shown(
    settings: Settings, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
):
    await record(settings, {})
    await select(settings, Selection())

    async def fail(*_: Any) -> None:
        raise ValueError("broken on purpose")

    builder = DatasetBuilder(settings, engine)
    with monkeypatch.context() as patched:
        patched.setattr("app.store.datasets.builds.store_piece", fail)
        assert await builder.advance()
    failed = await show(settings)
    assert (failed.status, failed.error) == ("building", "ValueError: broken on purpose")
    await fetch(settings.database_url, "UPDATE dataset_versions SET next_at = now()")
    assert await builder.advance()
    await builder.stop()
    assert ((await show(settings)).status, (await show(settings)).error) == ("complete", None)


def test_selection_is_stored_as_it_was_given():
    selection = Selection(tags={"a": "1"}, feedback=(FeedbackCondition(metric="score", min=0.8),))
    stored = msgspec.json.decode(msgspec.json.encode(selection))
    assert stored == {"tags": {"a": "1"}, "feedback": [{"metric": "score", "min": 0.8}]}
    assert msgspec.convert(stored, Selection) == selection
