"""An erasure removes the words and tags of feedback, also of feedback that comes late; numbers stay."""

import json
from typing import Any

from app.domain import uuid7
from app.domain.episode_names import named_episode_id
from app.domain.exchange import Exchange
from app.recording.erasure.hashes import Selector
from app.recording.spool.feedback_records import Feedback
from app.recording.spool.spool import Spool
from app.settings import Settings
from tests.integration.recording.test_erasures import (
    ANN,
    SECRET,
    carry_out,
    check,
    everything_stored,
    give,
    of_ann,
    received,
    settings,
    valkey,
    valkey_server,
    wait_until_complete,
)
from tests.integration.usage.test_rollups import TEAMS
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import drain, fetch, running_writer
from tests.support.spooled_exchanges import make_exchange, spool_exchange
from tests.support.spooled_feedback import make_feedback, spool_feedback

__all__ = ["settings", "valkey", "valkey_server"]

TAGS = {"tenant": "acme", "mail": "ann@example.com"}


def comment(target_id: str, **changes: Any) -> Feedback:
    return make_feedback(target_id, SECRET, **{"metric": "comment", "kind": "comment", "team_id": TEAMS[0], "tags": TAGS, **changes})


def in_own_episode(fields: dict[str, Any]) -> Exchange:
    """Returns an exchange in an episode that begins with it."""
    return make_exchange(**fields, episode_id=uuid7.mint(fields["received_us"]))


def spool_all(settings: Settings, *records: Exchange | Feedback) -> None:
    spool = Spool(settings.home / "spool", settings)
    for each in records:
        if isinstance(each, Feedback):
            spool_feedback(spool, each)
        else:
            spool_exchange(spool, b"", b"", **{name: getattr(each, name) for name in each.__struct_fields__})
    spool.close()


async def match(settings: Settings, *feedback: Feedback) -> None:
    """Have a writer find what they are about."""

    async def are_matched() -> bool:
        stored = await rows(settings)
        return all(each.id in stored and stored[each.id]["matched_at"] for each in feedback)

    async with running_writer(settings):
        await wait_until(are_matched)


async def rows(settings: Settings) -> dict[str, Any]:
    return {str(row["id"]): row for row in await fetch(settings.database_url, "SELECT * FROM feedback")}


async def test_words_and_tags_of_feedback_are_erased_with_its_inference_and_numbers_stay(settings: Settings):
    ann, bob = in_own_episode(of_ann(40)), in_own_episode(received(40, end_user="bob"))
    gone = [comment(ann.id), comment(ann.episode_id, level="episode"), make_feedback(ann.id, team_id=TEAMS[0], tags=TAGS)]
    kept = [comment(bob.id), comment(ann.id, team_id=TEAMS[1]), comment(bob.episode_id, level="episode")]
    spool_all(settings, ann, bob, *gone, *kept)
    await match(settings, *gone)  # feedback that is still waiting loses every tag
    done = await carry_out(settings, ANN, keep_tags=("tenant",))
    assert done.counts["feedback"] == 3
    stored = await rows(settings)
    for each in gone:
        row = stored[each.id]
        assert json.loads(row["tags"]) == {"tenant": "acme", "mail": "(erased)"} and row["erased_at"]
    assert [(stored[each.id]["value"], stored[each.id]["content"]) for each in gone] == [(None, "erased")] * 2 + [("true", "full")]
    assert [(json.loads(stored[each.id]["value"]), stored[each.id]["erased_at"]) for each in kept] == [(SECRET, None)] * 3
    checked = await check(settings, done.id)
    assert set(checked.left.values()) == {0} and "feedback" in checked.left
    await fetch(settings.database_url, "UPDATE feedback SET erased_at = NULL WHERE id = $1", gone[0].id)
    assert (await check(settings, done.id)).left["feedback"] == 1


async def test_feedback_is_erased_by_its_own_tags_and_by_its_episode(settings: Settings):
    episode, other = uuid7.mint(), uuid7.mint()
    spool_all(settings, comment(uuid7.mint()), comment(other, level="episode", tags={}), comment(episode, level="episode", tags={}))
    await drain(settings)
    by_tag = await carry_out(settings, Selector("tag", "mail", "ann@example.com"))
    by_episode = await carry_out(settings, Selector("episode", None, episode))
    assert (by_tag.counts["feedback"], by_episode.counts["feedback"]) == (1, 1)
    assert [(await check(settings, each.id)).left["feedback"] for each in (by_tag, by_episode)] == [0, 0]
    [left] = [row for row in (await rows(settings)).values() if row["erased_at"] is None]
    assert str(left["target_id"]) == other
    everything = await everything_stored(settings.database_url)
    assert episode not in everything and "ann@example.com" not in everything


async def test_feedback_on_an_episode_that_is_named_by_a_text_goes_with_its_id(settings: Settings):
    named = named_episode_id(TEAMS[0], "ticket of ann")
    early, late = (make_exchange(**of_ann(1), episode_id=named) for _ in range(2))
    score = make_feedback(named, 0.5, kind="float", level="episode", team_id=TEAMS[0])
    spool_all(settings, early, said := comment(named, level="episode"), score)
    await match(settings, said, score)
    done = await carry_out(settings, ANN)
    assert done.counts["feedback"] == 2
    spool_all(settings, comment(named, level="episode", received_us=early.received_us))
    await drain(settings)
    spool_all(settings, late)
    await drain(settings)
    stored = await rows(settings)
    assert [(row["value"], row["target_id"] == row["id"]) for row in stored.values() if row["kind"] == "comment"] == [(None, True)] * 2
    assert stored[score.id]["number"] == 0.5
    assert named not in await everything_stored(settings.database_url)


async def test_feedback_that_comes_after_the_erasure_is_erased(settings: Settings):
    ann = in_own_episode(of_ann(1))
    episode = uuid7.mint()
    before = [comment(ann.id, tags={}), comment(ann.episode_id, level="episode", tags={})]
    by_themselves = [comment(uuid7.mint()), comment(episode, level="episode", tags={})]
    spool_all(settings, ann)
    await drain(settings)
    ids = [await give(settings, each) for each in (ANN, Selector("tag", "mail", "ann@example.com"), Selector("episode", None, episode))]
    async with running_writer(settings):
        for id in ids:
            await wait_until_complete(settings, id)
        spool_all(settings, *before, *by_themselves)

        async def are_erased() -> bool:
            stored = await rows(settings)
            return all(each.id in stored and stored[each.id]["erased_at"] for each in before)

        await wait_until(are_erased)
    stored = await rows(settings)
    assert [(stored[each.id]["value"], stored[each.id]["erased_at"] is None) for each in (*before, *by_themselves)] == [(None, False)] * 4
    assert episode not in await everything_stored(settings.database_url)


async def test_words_about_what_was_erased_are_erased_whenever_they_are_sent_and_numbers_stay(settings: Settings):
    named = named_episode_id(TEAMS[0], "ticket of ann")
    in_named, in_own = make_exchange(**of_ann(1), episode_id=named), in_own_episode(of_ann(1))
    bob = in_own_episode(received(1, end_user="bob"))
    spool_all(settings, in_named, in_own, bob)
    await drain(settings)
    order = await give(settings, ANN)
    on_ann: list[dict[str, Any]] = [
        {"target_id": named, "level": "episode"},
        {"target_id": in_own.episode_id, "level": "episode"},
        {"target_id": in_own.id},
    ]
    meanwhile = [comment(**each) for each in on_ann]
    spool_all(settings, *meanwhile)
    async with running_writer(settings):
        await wait_until_complete(settings, order)
        later = [comment(**each) for each in on_ann]
        score: dict[str, Any] = {"metric": "score", "kind": "float", "team_id": TEAMS[0], "tags": TAGS}
        scores = [make_feedback(value=0.5, **each, **score) for each in on_ann]
        kept = [comment(bob.episode_id, level="episode"), comment(bob.id), comment(named, level="episode", team_id=TEAMS[1])]
        spool_all(settings, *later, *scores, *kept)
        goes_on = make_exchange(**received(0, end_user="bob"), episode_id=named)
        spool_all(settings, goes_on)
        matched = {each.id for each in (*scores, *kept[:2])}

        async def are_done() -> bool:
            stored = await rows(settings)
            words = [stored.get(each.id) for each in (*meanwhile, *later)]
            return all(row and row["erased_at"] for row in words) and matched <= {id for id, row in stored.items() if row["matched_at"]}

        await wait_until(are_done)
        spool_all(settings, last := comment(named, level="episode"))  # the episode goes on, and what was erased was in it

        async def is_erased() -> bool:
            stored = await rows(settings)
            return last.id in stored and stored[last.id]["erased_at"] is not None

        await wait_until(is_erased)
    stored = await rows(settings)
    for each in (*meanwhile, *later, last):
        assert (stored[each.id]["value"], stored[each.id]["content"]) == (None, "erased")
        assert set(json.loads(stored[each.id]["tags"]).values()) == {"(erased)"}
    for each in scores:
        assert (stored[each.id]["number"], json.loads(stored[each.id]["tags"])) == (0.5, TAGS)
    assert [json.loads(stored[each.id]["value"]) for each in kept] == [SECRET] * 3
    assert set((await check(settings, order)).left.values()) == {0}
    await fetch(settings.database_url, "UPDATE feedback SET erased_at = NULL, value = '1' WHERE id = any($1)", [later[0].id, later[1].id])
    assert (await check(settings, order)).left["feedback"] == 2


async def test_feedback_on_an_episode_is_erased_when_a_record_of_it_comes_late(settings: Settings):
    """Another inference of the episode had it matched before the one that the order is about was stored."""
    episode = uuid7.mint(of_ann(2)["received_us"])
    bob, ann = make_exchange(**received(2, end_user="bob"), episode_id=episode), make_exchange(**of_ann(2), episode_id=episode)
    said = comment(episode, level="episode", received_us=ann.received_us)
    spool_all(settings, bob, said)
    await match(settings, said)
    await carry_out(settings, ANN)
    assert json.loads((await rows(settings))[said.id]["value"]) == SECRET
    spool_all(settings, ann)
    await drain(settings)
    assert (await rows(settings))[said.id]["content"] == "erased"
