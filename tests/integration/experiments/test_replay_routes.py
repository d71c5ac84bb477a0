"""Replays of requests of every API, streamed and not, large and small: what a caller may have sent is sent again as it was."""

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx2
import pytest

from app.store.keys.key_format import public_prefix
from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk

REPLAYS = "/admin/v1/replays"
CONFIGURATION = """
[providers.replay-routes-engine]
adapter = "openai"
base_url = "{url}"
[models]
routes-old = {{ targets = [{{ provider = "replay-routes-engine", model = "old" }}] }}
routes-new = {{ targets = [{{ provider = "replay-routes-engine", model = "new" }}] }}
[teams.replay-routes]
"""
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
TOOL = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
MB = 1_000_000


def chat(text: str) -> dict[str, Any]:
    tool = {"type": "function", "function": {"name": "weather", "parameters": TOOL}}
    return {"model": "routes-old", "messages": [{"role": "user", "content": text}], "tools": [tool]}


def responses(text: str) -> dict[str, Any]:
    tool = {"type": "function", "name": "weather", "parameters": TOOL}
    return {"model": "routes-old", "instructions": "Be brief.", "input": text, "tools": [tool]}


def messages(text: str) -> dict[str, Any]:
    tool = {"name": "weather", "input_schema": TOOL}
    return {"model": "routes-old", "max_tokens": 50, "messages": [{"role": "user", "content": text}], "tools": [tool]}


def native(text: str) -> dict[str, Any]:
    tool = {"name": "weather", "description": "The weather.", "parameters": TOOL}
    given = {"messages": [{"role": "user", "content": text}]}
    return {"model_name": "routes-old", "input": given, "additional_tools": [tool]}


def completion(text: str) -> dict[str, Any]:
    return {"model": "routes-old", "prompt": text}


ROUTES = {
    "openai_chat": ("/v1/chat/completions", chat),
    "openai_responses": ("/v1/responses", responses),
    "anthropic_messages": ("/v1/messages", messages),
    "tensorzero_inference": ("/inference", native),
    "openai_completions": ("/v1/completions", completion),
}


async def answer(request: ReceivedRequest) -> None:
    """The model's name and the prompt, or what both models write alike; streamed if that is wanted, in pieces of each model's own."""
    model, prompt = request.body["model"], last_text(request.body)
    if f"{model} refuses" in prompt:
        await request.respond(400, b'{"error": {"message": "Not that.", "type": "invalid_request_error", "code": "content_filter"}}')
        return
    text = f"{model}: {prompt[:20]}"
    if "same" in prompt:
        text = "the same in both"
    if "long" in prompt:
        text = "a" * (5 * MB)
    if request.path.endswith("/completions") and "prompt" in request.body:
        await respond_with_text(request, text)
        return
    calls: list[dict[str, Any]] = []
    if "weather" in prompt:
        spaced = {"city": "Bern", "days": 2} if model == "old" else {"days": 2, "city": "Bern"}
        arguments = json.dumps(spaced, separators=(",", ":") if model == "old" else None)
        calls, text = [{"id": f"call-{model}", "type": "function", "function": {"name": "weather", "arguments": arguments}}], ""
    if not request.body.get("stream"):
        await request.respond_completion(text, **({"tool_calls": calls} if calls else {}))
        return
    request.begin_stream()
    request.send_event(chunk({"role": "assistant", "content": ""}))
    size = max(1, len(text) // (2 if model == "old" else 3))
    for at in range(0, len(text), size):
        request.send_event(chunk({"content": text[at : at + size]}))
        await request.writer.drain()
    for call in calls:
        request.send_event(chunk({"tool_calls": [{"index": 0, **call}]}))
    if "breaks" in prompt and model == "old":
        request.reset_connection()
        return
    request.send_event(chunk({}, "tool_calls" if calls else "stop"))
    request.send_event(chunk(None, usage=USAGE))
    request.send_event(b"[DONE]")
    request.end_stream()
    await request.writer.drain()


async def respond_with_text(request: ReceivedRequest, text: str) -> None:
    head = {"id": "cmpl-engine", "object": "text_completion", "created": 1750000000, "model": "engine-model"}
    body = {**head, "choices": [{"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}]}
    if not request.body.get("stream"):
        await request.respond(200, json.dumps({**body, "usage": USAGE}).encode())
        return
    request.begin_stream()
    request.send_event(body)
    request.send_event({**head, "choices": [], "usage": USAGE})
    request.send_event(b"[DONE]")
    request.end_stream()
    await request.writer.drain()


def last_text(body: Mapping[str, Any]) -> str:
    if "prompt" in body:
        return body["prompt"]
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content if part["type"] == "text")


class Replayer:
    def __init__(self, service: Service, engine: ScriptedEngine) -> None:
        self.service = service
        self.engine = engine
        done = service.run("keys", "create", "--team", "replay-routes", "--quiet")
        assert done.returncode == 0, done.stderr
        self.key = done.stdout.strip()
        self.public = public_prefix(self.key)

    async def send(self, route: str, text: str, *, status: int = 200, **more: Any) -> str:
        path, body = ROUTES[route]
        async with self.service.client(headers={"authorization": f"Bearer {self.key}"}) as client:
            response = await client.post(path, json={**body(text), **more})
            assert response.status_code == status, response.text
            id = response.headers["x-narthex-inference-id"]
        await self.service.wait_for_record(id)
        return id

    async def replay(self, admin: httpx2.AsyncClient, **order: Any) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """The replay when it has ended, and its items by their originals."""
        response = await admin.post(REPLAYS, json={"model": "routes-new", "key": self.public, "filter": {"key": self.public}, **order})
        assert response.status_code == 201, response.text
        path = f"{REPLAYS}/{response.json()['id']}"
        ended: dict[str, Any] = {}

        async def has_ended() -> bool:
            nonlocal ended
            ended = (await admin.get(path)).json()
            return ended["status"] != "running"

        await wait_until(has_ended, 120, interval_s=0.2)
        items = (await admin.get(f"{path}/items", params={"limit": 1000})).json()["data"]
        return ended, {item["original_id"]: item for item in items}


@pytest.fixture(scope="module")
async def engine(service: Service) -> AsyncGenerator[ScriptedEngine]:
    engine = ScriptedEngine()
    await engine.start()
    engine.script = answer
    service.apply(CONFIGURATION.format(url=f"http://127.0.0.1:{engine.port}/v1"))
    yield engine
    await engine.stop()


@pytest.fixture
def replayer(service: Service, engine: ScriptedEngine) -> Replayer:
    return Replayer(service, engine)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("route", ROUTES)
async def test_a_request_of_any_api_is_sent_again_as_it_was_and_compared(replayer: Replayer, route: str, streamed: bool):
    texts = ["the same?", "another"] + ([] if route == "openai_completions" else ["weather, please"])
    same, other, *calls = [await replayer.send(route, text, **({"stream": True} if streamed else {})) for text in texts]
    before = len(replayer.engine.requests)
    async with replayer.service.admin_client() as admin:
        ended, items = await replayer.replay(admin)
        assert ended["items"] == {"pending": 0, "running": 0, "done": len(texts), "refused": 0}, items
        assert [items[id]["same"] for id in (same, other, *calls)] == [True, False, *(True for _ in calls)], items
        for item in items.values():
            assert not item["original"]["error"] and not item["replayed"]["error"]
            assert item["original"]["output_tokens"] == item["replayed"]["output_tokens"] == 2, item
            record = await replayer.service.wait_for_record(item["inference_id"])
            assert (record["route"], record["streamed"], record["served_model"]) == (route, streamed, "new")
            assert record["content"]["response"] is not None
    sent = [each.body for each in replayer.engine.requests[before:] if each.body["model"] == "new"]
    assert sorted(last_text(body) for body in sent) == sorted(texts)
    assert all(bool(body.get("stream")) == streamed for body in sent)


async def test_responses_are_not_stored_for_later_nor_continued(replayer: Replayer):
    first = await replayer.send("openai_responses", "the first turn")
    stored = (await replayer.service.wait_for_record(first))["content"]["response"]
    id = json.loads(stored)["id"] if isinstance(stored, str) else stored["id"]
    second = await replayer.send("openai_responses", "and then?", previous_response_id=id)
    async with replayer.service.admin_client() as admin:
        _, items = await replayer.replay(admin)
        assert (items[first]["status"], items[second]["status"], items[second]["reason"]) == ("done", "refused", "continued"), items
        record = await replayer.service.wait_for_record(items[first]["inference_id"])
        request = record["content"]["request"]
        assert (json.loads(request) if isinstance(request, str) else request)["store"] is False


async def test_a_long_response_is_measured_and_not_compared(replayer: Replayer):
    whole, streamed = await replayer.send("openai_chat", "long"), await replayer.send("openai_chat", "long", stream=True)
    async with replayer.service.admin_client() as admin:
        ended, items = await replayer.replay(admin)
        assert ended["items"]["done"] == 2, items
        for id in (whole, streamed):
            assert items[id]["same"] is None and items[id]["replayed"]["output_tokens"] == 2 and not items[id]["replayed"]["error"], items


async def test_a_stream_that_broke_is_compared_as_an_error(replayer: Replayer):
    id = await replayer.send("openai_chat", "breaks", stream=True)
    async with replayer.service.admin_client() as admin:
        _, items = await replayer.replay(admin)
        assert items[id]["original"]["error"] and not items[id]["replayed"]["error"] and items[id]["same"] is None, items


async def test_a_large_request_is_sent_again_to_the_last_byte_or_not_at_all(engine: ScriptedEngine):
    """The longest body is read to its end, and none is recorded in part: what the spool had no room for is `lost` as a whole."""
    text = "".join(f"{n:07d} " for n in range(30 * MB // 8)) + "same"
    configuration = CONFIGURATION.format(url=f"http://127.0.0.1:{engine.port}/v1")
    service = services.start(workers=1)
    try:
        service.apply(configuration)
        replayer = Replayer(service, engine)
        large = await replayer.send("openai_chat", text)
        before = len(engine.requests)
        async with service.admin_client() as admin:
            ended, items = await replayer.replay(admin)
            assert (ended["items"]["done"], items[large]["same"]) == (1, True), items
        [again] = [each for each in engine.requests[before:] if each.body["model"] == "new"]
        assert last_text(again.body) == text
        services.stop(service, remove=False)
        bounds: dict[str, Any] = {
            "max_body_bytes": MB,
            "spool_max_bytes": 200_000,
            "spool_when_full": "metadata",
            "spool_reserve_bytes": MB,
        }
        service = replayer.service = services.start(home=service.home, workers=1, **bounds)
        lost = await replayer.send("openai_chat", text[: MB // 2])
        before = len(engine.requests)
        async with service.admin_client() as admin:
            ended, items = await replayer.replay(admin)
            assert ended["refused"] == {"lost": 1} and set(items) == {large}, (ended, lost)
            assert (items[large]["status"], items[large]["reason"]) == ("refused", "too_long"), items
        assert not [each for each in engine.requests[before:] if each.body["model"] == "new"]
    finally:
        services.stop(service)


async def test_a_refusal_is_one_by_its_code_too_as_in_results_of_experiments(replayer: Replayer):
    by_old = await replayer.send("openai_chat", "old refuses", status=400)
    by_new = await replayer.send("openai_chat", "new refuses")
    async with replayer.service.admin_client() as admin:
        _, items = await replayer.replay(admin)
    refusals = {id: (item["original"]["refusal"], item["replayed"]["refusal"]) for id, item in items.items()}
    assert refusals == {by_old: (True, False), by_new: (False, True)}


async def test_no_end_user_is_charged_for_a_replay(replayer: Replayer):
    """Sums and lists of an end user are of what was sent for them; those of the key that pays have the replay, too."""
    id = await replayer.send("openai_chat", "something", user="replayed-ann")
    async with replayer.service.admin_client() as admin:
        _, items = await replayer.replay(admin)
        again = items[id]["inference_id"]
        record = await replayer.service.wait_for_record(again)
        assert (record["end_user"], record["origin"]) == ("replayed-ann", "replay")

        async def requests_by(**filters: str) -> int:
            found = (await admin.get("/admin/v1/analytics", params=filters)).json()
            return found["data"][0]["requests"] if found["data"] else 0

        async def is_summed() -> bool:
            return await requests_by(key=replayer.public) == 2

        await wait_until(is_summed)
        assert await requests_by(end_user="replayed-ann") == 1

        async def listed(**filters: str) -> set[str]:
            found = await admin.get("/admin/v1/inferences", params={"key": replayer.public, **filters})
            return {each["id"] for each in found.json()["data"]}

        assert await listed(end_user="replayed-ann") == {id} and await listed() == {id, again}
        assert await listed(end_user="replayed-ann", origin="replay") == {again} == await listed(original_id=id)
