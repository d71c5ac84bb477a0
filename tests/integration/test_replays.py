"""Replays over real HTTP: recorded requests through another model, in the name of a key that pays, each once, within a cap."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import httpx
import pytest

from app.cli.key_format import public_prefix
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine
from tests.support.service import Service
from tests.support.wait_until import wait_until

CHAT = "/v1/chat/completions"
REPLAYS = "/admin/v1/replays"
# A request takes 3 tokens, and a response 2: new costs 3 * 100 + 2 * 200 = 700 millionths of a dollar.
CONFIGURATION = """
[providers.replay-engine]
adapter = "openai"
base_url = "{url}"
[models]
replay-old = {{ targets = [{{ provider = "replay-engine", model = "old" }}] }}
replay-new = {{ targets = [{{ provider = "replay-engine", model = "new" }}], output_tokens = 10 }}
replay-unpriced = {{ targets = [{{ provider = "replay-engine", model = "unpriced" }}] }}
replay-judging = {{ targets = [{{ provider = "replay-engine", model = "judging" }}], output_tokens = 10 }}
[[prices]]
provider = "replay-engine"
model = "old"
input = 10
output = 20
[[prices]]
provider = "replay-engine"
model = "new"
input = 100
output = 200
[[prices]]
provider = "replay-engine"
model = "judging"
input = 1
output = 1
[functions.replay-task]
default = "plain"
schemas.user = {{ type = "object", properties = {{ question = {{ type = "string" }} }}, required = ["question"] }}
[functions.replay-task.variants.plain]
model = "replay-old"
user_template = "Answer {{{{ question }}}}."
[functions.replay-task.variants.short]
model = "replay-new"
user_template = "In a word: {{{{ question }}}}"
[functions.replay-judge]
type = "json"
output_schema = {{ type = "object", properties = {{ score = {{ type = "number" }} }}, required = ["score"], additionalProperties = false }}
[functions.replay-judge.variants.only]
model = "replay-judging"
system_template = "Which response is better?"
[teams.replay-private]
content = "none"
[teams.replay-payers]
[teams.replay-callers]
"""


class World:
    """A service with an engine of its own, and keys of callers and of who pays. `judge`: the engine's scores, by (a, b)."""

    def __init__(self, service: Service, engine: ScriptedEngine) -> None:
        self.service = service
        self.engine = engine
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: Counter[str] = Counter()

    async def answer(self, request: ReceivedRequest) -> None:
        model = request.body["model"]
        self.asked[model] += 1
        text = request.body["messages"][-1]["content"]
        if model == "judging":
            given = json.loads(text)
            score = 0.5 if given["response_a"] == given["response_b"] else float(given["response_a"].startswith("new"))
            if "always first" in given["request"]:
                score = 1.0
            await request.respond_completion(json.dumps({"score": score}))
            return
        if model == "new":
            await self.gate.wait()
            if "fail" in text:
                await request.respond(500, b'{"error": {"message": "no"}}')
                return
        await request.respond_completion("same" if "same" in text else f"{model}: {text}")

    def key(self, team: str) -> tuple[str, str]:
        """The key, and its public part."""
        done = self.service.run("keys", "create", "--team", team, "--quiet")
        assert done.returncode == 0, done.stderr
        key = done.stdout.strip()
        return key, public_prefix(key)

    async def send(self, key: str, texts: Sequence[str], model: str = "replay-old", **more: Any) -> list[str]:
        """The ids of their inferences, once all are recorded."""
        ids: list[str] = []
        async with self.service.client(headers={"authorization": f"Bearer {key}"}) as client:
            for text in texts:
                answer = await client.post(CHAT, json={"model": model, "messages": [{"role": "user", "content": text}], **more})
                assert answer.status_code == 200, answer.text
                ids.append(answer.headers["x-narthex-inference-id"])
        for id in ids:
            await self.service.wait_for_record(id)
        return ids

    async def start(self, admin: httpx.AsyncClient, **order: Any) -> dict[str, Any]:
        response = await admin.post(REPLAYS, json={"model": "replay-new", **order})
        assert response.status_code == 201, response.text
        return response.json()

    async def end_of(self, admin: httpx.AsyncClient, id: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def has_ended() -> bool:
            nonlocal found
            found = (await admin.get(f"{REPLAYS}/{id}")).json()
            return found["status"] != "running"

        await wait_until(has_ended, 120, interval_s=0.2)
        return found

    async def items(self, admin: httpx.AsyncClient, id: str) -> list[dict[str, Any]]:
        return (await admin.get(f"{REPLAYS}/{id}/items", params={"limit": 1000})).json()["data"]


async def _world(service: Service, engine: ScriptedEngine) -> World:
    await engine.start()
    service.apply(CONFIGURATION.format(url=f"http://127.0.0.1:{engine.port}/v1"))
    world = World(service, engine)
    engine.script = world.answer
    return world


@pytest.fixture(scope="module")
async def world(service: Service) -> AsyncGenerator[World]:
    engine = ScriptedEngine()
    yield await _world(service, engine)
    await engine.stop()


async def test_each_request_is_answered_again_and_compared(world: World):
    key, public = world.key("replay-callers")
    originals = await world.send(key, ["same", "other", "please fail"], user="replay-ann")
    async with world.service.admin_client() as admin:
        started = await world.start(admin, key=public, filter={"key": public}, max_usd=1, concurrency=2)
        assert started["items"] == {"pending": 3, "running": 0, "done": 0, "refused": 0} and started["refused"] == {}
        ended = await world.end_of(admin, started["id"])
        assert (ended["status"], ended["reason"], ended["items"]["done"], ended["retried"]) == ("complete", None, 3, 0), ended
        items = {item["original_id"]: item for item in await world.items(admin, started["id"])}
        assert set(items) == set(originals)
        same, other, failed = (items[id] for id in originals)
        assert (same["same"], other["same"], failed["same"]) == (True, False, None)
        assert same["original"]["cost_microusd"] == 70 and same["replayed"]["cost_microusd"] == 700
        assert not other["replayed"]["error"] and failed["replayed"]["error"] and failed["replayed"]["cost_microusd"] == 0
        assert ended["spent_usd"] == pytest.approx(0.0014) and ended["reserved_usd"] == 0
        record = await world.service.wait_for_record(same["inference_id"])
        assert (record["origin"], record["original_id"], record["replay_id"]) == ("replay", originals[0], started["id"])
        assert record["model"] == "replay-new" and record["tags"] is None and record["content"]["response"] is not None
        listed = (await admin.get("/admin/v1/inferences", params={"key": public, "origin": "caller"})).json()["data"]
        assert {each["id"] for each in listed} == set(originals)
    async with world.service.client(headers={"authorization": f"Bearer {key}"}) as client:
        assert (await client.get(f"/v1/inferences/{same['inference_id']}")).status_code == 404
        assert (await client.get(f"/v1/inferences/{originals[0]}")).status_code == 200
