"""A repetition of another team's request shows the team that pays no end user, tag or episode of it.

Shadows and replays have this one rule.
"""

import json
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

CHAT = "/v1/chat/completions"
CONFIGURATION = """
[providers.repeated]
adapter = "openai"
base_url = "http://127.0.0.1:PORT"
[models]
repeated-other = { targets = [{ provider = "repeated", model = "other" }], output_tokens = 10 }
repeated-plain = { targets = [{ provider = "repeated", model = "plain" }] }
[models.repeated-shadowed]
targets = [{ provider = "repeated", model = "plain" }]
shadow = { to = "repeated-other", team = "repeated-payers", share = 1.0, per_minute = 10000 }
[teams.repeated-payers]
[teams.repeated-callers]
"""


@pytest.fixture(autouse=True)
def repeated(service: Service, engine: ScriptedEngine) -> ScriptedEngine:
    engine.script = ReceivedRequest.respond_completion
    service.apply(CONFIGURATION.replace("PORT", str(engine.port)))
    return engine


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


def ok(answer: httpx2.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


async def viewer_of(service: Service, admin: httpx2.AsyncClient, team: str) -> httpx2.AsyncClient:
    name = f"viewer-{uuid.uuid4().hex[:12]}"
    ok(await admin.post("/admin/v1/service-accounts", json={"name": name, "roles": [{"role": "owner", "team": team}]}), 201)
    token = ok(await admin.post(f"/admin/v1/service-accounts/{name}/tokens"), 201)["token"]
    return httpx2.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {token}"}, timeout=60)


async def repetition_of(admin: httpx2.AsyncClient, original: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    async def is_recorded() -> bool:
        found[:] = ok(await admin.get("/admin/v1/inferences", params={"original_id": original}))["data"]
        return bool(found)

    await wait_until(is_recorded, 120)
    return found[0]


async def replay(admin: httpx2.AsyncClient, caller: str, payer: str) -> str:
    order = {"model": "repeated-other", "key": payer, "filter": {"key": caller, "model": "repeated-plain"}}
    id = ok(await admin.post("/admin/v1/replays", json=order), 201)["id"]

    async def has_ended() -> bool:
        return ok(await admin.get(f"/admin/v1/replays/{id}"))["status"] == "complete"

    await wait_until(has_ended, 120)
    return id


async def read_tail(viewer: httpx2.AsyncClient, position: str | None) -> str:
    """Returns what a live tail shows of what was stored since a position, or the position of now if it is None."""
    headers = {} if position is None else {"last-event-id": position}
    shown = ""
    async with viewer.stream("GET", "/admin/v1/inferences/tail", headers=headers, params={"duration_s": 20}) as tail:
        assert tail.status_code == 200, await tail.aread()
        async for line in tail.aiter_lines():
            shown += line
            if line.startswith("id: ") and (position is None or line != f"id: {position}"):
                return shown if position is not None else line.removeprefix("id: ")
    return shown


@pytest.mark.parametrize("kind", ["shadow", "replay"])
async def test_the_team_that_pays_for_a_repetition_learns_nothing_of_the_original(service: Service, admin: httpx2.AsyncClient, kind: str):
    caller = ok(await admin.post("/admin/v1/keys", json={"team": "repeated-callers"}), 201)
    payer = ok(await admin.post("/admin/v1/keys", json={"team": "repeated-payers"}), 201)
    person, tag, episode = (f"{what}-{uuid.uuid4().hex}" for what in ("ann", "tenant", "episode"))
    headers = {"authorization": f"Bearer {caller['key']}", "x-narthex-tags": json.dumps({"tenant": tag}), "x-narthex-episode-id": episode}
    body = {"model": "repeated-shadowed" if kind == "shadow" else "repeated-plain", "user": person, "metadata": {"also": tag}}
    body |= {"messages": [{"role": "user", "content": "Hello!"}]}
    async with await viewer_of(service, admin, "repeated-payers") as viewer, service.keyless_client() as client:
        position = await read_tail(viewer, None)
        answer = await client.post(CHAT, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        original = answer.headers["x-narthex-inference-id"]
        record = await service.wait_for_record(original)
        assert (record["end_user"], record["tags"]["tenant"]) == (person, tag)
        replay_id = await replay(admin, caller["prefix"], payer["prefix"]) if kind == "replay" else None
        repetition = await repetition_of(admin, original)
        assert (repetition["team"], repetition["content_team"], repetition["origin"]) == ("repeated-payers", "repeated-callers", kind)
        own = [person, tag, episode, record["episode_id"], repetition["episode_id"]]
        shown = [
            await viewer.get("/admin/v1/inferences"),
            await viewer.get("/admin/v1/inferences", params={"origin": kind}),
            await viewer.get("/admin/v1/inferences", params={"original_id": original}),
            await viewer.get("/admin/v1/inferences", params={"end_user": person}),
            await viewer.get("/admin/v1/inferences", params={"tag": f"tenant={tag}"}),
            await viewer.get("/admin/v1/inferences/export", params={"format": "jsonl"}),
            await viewer.get("/admin/v1/inferences/export", params={"format": "csv"}),
            await viewer.get("/admin/v1/replays"),
        ]
        details = [
            await viewer.get(f"/admin/v1/inferences/{repetition['id']}"),
            await viewer.get(f"/admin/v1/inferences/{original}"),
            *[await viewer.get(f"/admin/v1/episodes/{each}") for each in (record["episode_id"], repetition["episode_id"])],
            await viewer.get(f"/admin/v1/episodes/{repetition['episode_id']}/timeline"),
        ]
        if replay_id is not None:
            shown += [await viewer.get(f"/admin/v1/replays/{replay_id}{part}") for part in ("", "/items", "/results")]
        assert {each.status_code for each in shown} == {200}, [each.text for each in shown if each.status_code != 200]
        assert {each.status_code for each in details} == {404}, [each.text for each in details if each.status_code != 404]
        texts = [*(each.text for each in shown), await read_tail(viewer, position)]
        for text in texts:
            assert not [each for each in own if each in text], text[:2000]
        assert ok(await admin.get(f"/admin/v1/inferences/{repetition['id']}"))["original_id"] == original, "the company sees it"
