"""Episodes through the official SDKs: named by ids of the callers' own, continued by responses, searched by name, kept at their target."""

import json
import time
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.scripted_engine import ScriptedEngine

HI: Any = [{"role": "user", "content": "Hello!"}]
LIST, EXPORT = "/admin/v1/inferences", "/admin/v1/inferences/export"


def unique(name: str) -> str:
    return f"{name} {time.time_ns()}"


class Sent:
    """A response: its inference, and its episode as the header has it."""

    def __init__(self, headers: Any) -> None:
        self.id: str = headers["x-narthex-inference-id"]
        self.episode: str = headers["x-narthex-episode-id"]


async def chat(sdk: Any, model: str = "sandbox", **more: Any) -> Sent:
    return Sent((await sdk.chat.completions.with_raw_response.create(model=model, messages=HI, max_tokens=4, **more)).headers)


async def respond(sdk: Any, model: str = "sandbox", **more: Any) -> tuple[Sent, Any]:
    raw = await sdk.responses.with_raw_response.create(model=model, input="Hello!", max_output_tokens=16, **more)
    return Sent(raw.headers), raw.parse()


async def message(claude: Any, model: str = "sandbox", **more: Any) -> Sent:
    return Sent((await claude.messages.with_raw_response.create(model=model, messages=HI, max_tokens=4, **more)).headers)


def named(episode: str) -> dict[str, str]:
    return {"x-narthex-episode-id": episode}


@pytest.fixture(scope="module")
async def other_team(service: Service) -> AsyncGenerator[openai.AsyncOpenAI]:
    key = json.loads(service.run("keys", "create", "--team", "episodes-other", "--json").stdout)["key"]
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=key, max_retries=0) as sdk:
        yield sdk


async def test_text_names_one_episode_in_every_api_and_is_found_by_it(
    service: Service, sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic
):
    name = unique("Gespräch/ticket 7?")
    sent = [
        await chat(sdk, extra_body={"episode_id": name}),
        (await respond(sdk, extra_body={"tensorzero::episode_id": name}))[0],
        await message(claude, extra_body={"episode_id": name}),
    ]
    (episode,) = {each.episode for each in sent}
    assert uuid.UUID(episode).version == 8
    sent += [await chat(sdk, extra_headers=named(episode)), await message(claude, extra_headers=named(episode.upper()))]
    sent.append(await chat(sdk, extra_body={"episode_id": name}, extra_headers=named(episode)))
    assert {each.episode for each in sent} == {episode}
    ids = [each.id for each in sent]
    records = [await service.wait_for_record(id) for id in ids]
    assert [record["episode_name"] for record in records] == [name, name, name, None, None, name]
    assert {record["episode_id"] for record in records} == {episode}

    async with service.admin_client() as admin, service.client() as own:
        for value in (name, episode, episode.upper()):
            for team in ({}, {"team": records[0]["team"]}, {"team_id": records[0]["team_id"]}):
                listed = (await admin.get(LIST, params={"episode_id": value, **team})).json()["data"]
                assert [row["id"] for row in listed] == ids[::-1], (value, team)
            assert (await admin.get(LIST, params={"episode_id": value, "team": "nobody"})).status_code == 400
            path = f"/admin/v1/episodes/{httpx2.QueryParams({'': value})!s}".replace("=", "").replace("+", "%20")
            shown = (await admin.get(path)).json()
            assert (shown["id"], [row["id"] for row in shown["inferences"]]) == (episode, ids)
            timeline = (await admin.get(f"{path}/timeline")).json()
            assert (timeline["id"], timeline["name"], timeline["totals"]["inferences"]) == (episode, name, len(ids))
            drawn = service.run("episode", value)
            assert drawn.returncode == 0 and f"Episode {episode} ({name}) of" in drawn.stdout, drawn.stderr
            assert service.run("inferences", "--episode", value, "--json").stdout.count('"episode_id"') == len(ids)
        exported = (await admin.get(EXPORT, params={"episode_id": name})).text.splitlines()
        assert [json.loads(line)["episode_name"] for line in exported] == [record["episode_name"] for record in records[::-1]]
        assert (await own.get(f"/v1/inferences/{ids[0]}")).json()["episode_name"] == name
        assert (await admin.get(LIST, params={"episode_id": name + "x"})).json()["data"] == []
        assert (await admin.get("/admin/v1/episodes/%00x")).status_code == 400
        assert (await admin.get(f"/admin/v1/episodes/{'x' * 129}")).status_code == 400
        assert (await admin.get("/admin/v1/episodes/never-sent")).status_code == 404
    assert service.run("episode", "never sent").returncode == 1
    assert service.run("episode", "a\tb").returncode == service.run("inferences", "--episode", "x" * 129).returncode == 2


async def test_streams_and_errors_carry_the_episode_of_a_text(client: httpx2.AsyncClient, engine: ScriptedEngine):
    name = unique("Gespräch 😀")  # httpx2 sends a header as UTF-8 where it is given as bytes
    body = {"model": "sandbox", "messages": HI, "max_tokens": 4, "stream": True}
    streamed = await client.post("/v1/chat/completions", json=body, headers={b"x-narthex-episode-id": name.encode()})
    episode = streamed.headers["x-narthex-episode-id"]
    frames = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: {")]
    assert {frame["episode_id"] for frame in frames} == {episode}
    assert (await client.post("/v1/chat/completions", json={**body, "episode_id": name})).headers["x-narthex-episode-id"] == episode
    failed = await client.post("/v1/chat/completions", json={**body, "model": "no-such-model"}, headers=named(episode))
    assert (failed.status_code, failed.headers["x-narthex-episode-id"]) == (404, episode)


async def test_text_is_another_episode_in_another_team(service: Service, sdk: openai.AsyncOpenAI, other_team: openai.AsyncOpenAI):
    name = unique("shared")
    ours, theirs = await chat(sdk, extra_headers=named(name)), await chat(other_team, extra_headers=named(name))
    assert ours.episode != theirs.episode
    # Our UUID is a text like any other to them: they neither join our episode nor learn of it.
    probed = await chat(other_team, extra_headers=named(ours.episode))
    assert probed.episode not in (ours.episode, theirs.episode)
    records = [await service.wait_for_record(each.id) for each in (ours, theirs, probed)]
    async with service.admin_client() as admin:
        ambiguous = await admin.get(f"/admin/v1/episodes/{name}")
        assert (ambiguous.status_code, ambiguous.json()["error"]["param"]) == (400, "team_id")
        assert all(record["team_id"] in ambiguous.json()["error"]["message"] for record in records[:2])
        for sent, record in ((ours, records[0]), (theirs, records[1])):
            shown = (await admin.get(f"/admin/v1/episodes/{name}", params={"team_id": record["team_id"]})).json()
            assert [row["id"] for row in shown["inferences"]] == [sent.id]
        both = (await admin.get(LIST, params={"episode_id": name})).json()["data"]
        assert {row["id"] for row in both} == {ours.id, theirs.id}
    assert "name one by --team" in service.run("episode", name).stderr
    assert theirs.episode in service.run("episode", name, "--team", "episodes-other").stdout


async def test_continued_response_stays_in_its_episode(service: Service, sdk: openai.AsyncOpenAI, other_team: openai.AsyncOpenAI):
    name = unique("responses")
    first, answer = await respond(sdk, extra_body={"episode_id": name})
    second, continued = await respond(sdk, previous_response_id=answer.id)
    third, _ = await respond(sdk, previous_response_id=continued.id, stream=False)
    assert first.episode == second.episode == third.episode
    assert [(await service.wait_for_record(each.id))["episode_name"] for each in (first, second, third)] == [name] * 3

    begun, answer = await respond(sdk)
    assert (await respond(sdk, previous_response_id=answer.id))[0].episode == begun.episode != first.episode
    # Whoever names an episode gets that one: the conversation goes on in another.
    assert (await respond(sdk, previous_response_id=answer.id, extra_headers=named(name)))[0].episode == first.episode
    # What cannot be continued is refused, so it has no episode to be in.
    unstored = (await respond(sdk, store=False))[1].id
    for caller, id in ((sdk, unstored), (other_team, answer.id), (sdk, f"resp_{uuid7.mint()}")):
        with pytest.raises(openai.BadRequestError) as refused:
            await respond(caller, previous_response_id=id)
        assert refused.value.code == "previous_response_not_found"
        assert "x-narthex-episode-id" not in refused.value.response.headers


@pytest.fixture(scope="module")
def weighted(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> str:
    weights(service, 1.0, 1.0)
    return "episodes-weighted"


def weights(service: Service, first: float, second: float) -> None:
    service.apply(f"""
        [models.episodes-weighted]
        targets = [
            {{ provider = "first", model = "engine-model", weight = {first} }},
            {{ provider = "second", model = "engine-model", weight = {second} }},
        ]
    """)


async def test_conversation_keeps_its_target_over_three_apis_and_single_requests_spread(
    service: Service,
    sdk: openai.AsyncOpenAI,
    claude: anthropic.AsyncAnthropic,
    engine: ScriptedEngine,
    second_engine: ScriptedEngine,
    weighted: str,
):
    served: list[bool] = []
    for number in range(12):
        engine.requests.clear()
        second_engine.requests.clear()
        # Half of the conversations are named by the caller, half by the id of their first response.
        name = unique(f"conversation {number}") if number % 2 else (await chat(sdk, weighted)).episode
        for _ in range(2):
            await chat(sdk, weighted, extra_headers=named(name))
            await message(claude, weighted, extra_headers=named(name))
            _, answer = await respond(sdk, weighted, extra_headers=named(name))
            await respond(sdk, weighted, previous_response_id=answer.id)
        assert 0 in (len(engine.requests), len(second_engine.requests)), name
        served.append(bool(engine.requests))
    for _ in range(30):
        await chat(sdk, weighted)
    # Each of them has a chance of one in a thousand million to see one engine alone.
    assert engine.requests and second_engine.requests


async def test_raised_weight_moves_episodes_into_that_target_alone(
    service: Service, sdk: openai.AsyncOpenAI, engine: ScriptedEngine, second_engine: ScriptedEngine, weighted: str
):
    async def first_serves(name: str) -> bool:
        engine.requests.clear()
        await chat(sdk, weighted, extra_headers=named(name))
        return bool(engine.requests)

    names = [unique(f"raised {number}") for number in range(24)]
    before = [await first_serves(name) for name in names]
    weights(service, 999.0, 1.0)
    after = [await first_serves(name) for name in names]
    weights(service, 1.0, 1.0)
    assert [await first_serves(name) for name in names] == before
    assert all(new for old, new in zip(before, after, strict=True) if old) and sum(after) > sum(before)
