"""Keep-alives: a caller of a stream hears something while an engine is silent, and gets the same response as without."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Generator
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from msgspec import Struct

from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, Script, ScriptedEngine, chunk
from tests.support.sdk_callers import HI, Caller, ChatCaller, MessagesCaller, ResponsesCaller

INTERVAL_S = 0.2
SILENCE_S = 1.2
# A busy machine may be late, but not by as much as the silence lasts.
LONGEST_GAP_S = 1.0
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
APIS = tuple(PATHS)
KEEP_ALIVES = {"chat": b": keep-alive\n\n", "messages": b"event: ping\n", "responses": b"event: response.in_progress\n"}

MESSAGE: dict[str, Any] = {
    "id": "msg_up",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
}
MESSAGE_EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {**MESSAGE, "usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)
RESPONSE: dict[str, Any] = {
    "id": "resp_up",
    "object": "response",
    "created_at": 1750000000,
    "model": "m",
    "status": "in_progress",
    "output": [],
}
ITEM = {"type": "message", "id": "msg_up", "role": "assistant", "status": "completed"}
PART: dict[str, Any] = {"type": "output_text", "text": "Hello.", "annotations": []}
AT = {"item_id": "msg_up", "output_index": 0, "content_index": 0}
RESPONSE_EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "response.created", "response": RESPONSE},
    {"type": "response.in_progress", "response": RESPONSE},
    {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "status": "in_progress", "content": []}},
    {"type": "response.content_part.added", **AT, "part": {**PART, "text": ""}},
    {"type": "response.output_text.delta", **AT, "delta": "Hel", "logprobs": []},
    {"type": "response.output_text.delta", **AT, "delta": "lo.", "logprobs": []},
    {"type": "response.output_text.done", **AT, "text": "Hello.", "logprobs": []},
    {"type": "response.content_part.done", **AT, "part": PART},
    {"type": "response.output_item.done", "output_index": 0, "item": {**ITEM, "content": [PART]}},
    {
        "type": "response.completed",
        "response": {
            **RESPONSE,
            "status": "completed",
            "output": [{**ITEM, "content": [PART]}],
            "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
        },
    },
)
# The engine's events, and how many of them come before it is silent midway.
EVENTS: dict[str, tuple[tuple[dict[str, Any], ...], int]] = {
    "chat": (HELLO, 2),
    "messages": (MESSAGE_EVENTS, 3),
    "responses": (tuple({**event, "sequence_number": at} for at, event in enumerate(RESPONSE_EVENTS)), 5),
}


def silent_engine(api: str, *, midway: bool, comments: bool = False) -> Script:
    """Streams "Hello.", and is silent at the beginning or midway; `comments`: but for those."""
    events, until = EVENTS[api]

    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        for at, event in enumerate(events):
            if at == (until if midway else 0):
                for _ in range(15):
                    await asyncio.sleep(SILENCE_S / 15)
                    if comments:
                        request.send_chunk(b": OPENROUTER PROCESSING\n\n")
            name = b"" if api == "chat" else b"event: %b\n" % event["type"].encode()
            request.send_chunk(name + b"data: " + json.dumps(event).encode() + b"\n\n")
        if api == "chat":
            request.send_event(b"[DONE]")
        request.end_stream()
        await request.writer.drain()

    return script


def fails_late(status: int, body: Any) -> Script:
    async def script(request: ReceivedRequest) -> None:
        await asyncio.sleep(SILENCE_S)
        await request.respond(status, json.dumps(body).encode())

    return script


@pytest.fixture(scope="module")
def service() -> Generator[Service]:
    running = services.start(workers=1, stream_keep_alive_s=INTERVAL_S, retries=0, breaker_failures=1000, drain_timeout_s=5)
    yield running
    services.stop(running)


@pytest.fixture(scope="module")
async def engines(service: Service) -> AsyncGenerator[tuple[ScriptedEngine, ScriptedEngine]]:
    first, second = ScriptedEngine(), ScriptedEngine()
    await first.start()
    await second.start()
    configure(service, first, second)
    yield first, second
    await first.stop()
    await second.stop()


def configure(service: Service, first: ScriptedEngine, second: ScriptedEngine) -> None:
    one, two = f"http://127.0.0.1:{first.port}", f"http://127.0.0.1:{second.port}"
    service.apply(f"""
        [providers]
        first = {{ adapter = "openai", base_url = "{one}" }}
        second = {{ adapter = "openai", base_url = "{two}" }}
        never = {{ adapter = "openai", base_url = "{one}", options = {{ stream = "never" }} }}
        anthropic = {{ adapter = "anthropic", base_url = "{one}" }}
        responses = {{ adapter = "openai", base_url = "{one}", options = {{ dialects = ["openai_responses"] }} }}
        vllm = {{ adapter = "vllm", base_url = "{one}", options = {{ version = "0.32.0" }} }}
        own = {{ adapter = "openai", base_url = "{one}", credential = "header:x-upstream-key" }}
        [models]
        own-key = {{ targets = [{{ provider = "own", model = "m" }}] }}
        chat = {{ targets = [{{ provider = "first", model = "m" }}] }}
        messages = {{ targets = [{{ provider = "anthropic", model = "m" }}] }}
        responses = {{ targets = [{{ provider = "responses", model = "m" }}] }}
        never = {{ targets = [{{ provider = "never", model = "m" }}] }}
        vllm = {{ targets = [{{ provider = "vllm", model = "m" }}] }}
        pair = {{ targets = [{{ provider = "first", model = "m" }}, {{ provider = "second", model = "m" }}] }}
    """)


@pytest.fixture
async def sdk(service: Service) -> AsyncGenerator[openai.AsyncOpenAI]:
    plain = openai.DefaultAsyncHttpxClient(verify=False)
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=service.key, max_retries=0, http_client=plain) as sdk:
        yield sdk


@pytest.fixture
async def claude(service: Service) -> AsyncGenerator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(base_url=service.url, api_key=service.key, max_retries=0) as sdk:
        yield sdk


@pytest.fixture
def callers(sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic) -> tuple[Caller, ...]:
    return ChatCaller(sdk), ResponsesCaller(sdk), MessagesCaller(claude)


def chat_body(api: str, model: str, **more: Any) -> dict[str, Any]:
    prompt: dict[str, Any] = {"input": HI} if api == "responses" else {"messages": HI}
    return {"model": model, **prompt, **({"max_tokens": 100} if api == "messages" else {}), "stream": True, **more}


class ReceivedStream(Struct):
    """A stream as it was received. `gap_s` is the longest time in which nothing came."""

    status: int
    headers: httpx2.Headers
    body: bytes
    gap_s: float

    @property
    def events(self) -> list[dict[str, Any]]:
        frames = [frame.partition(b"data: ")[2] for frame in self.body.split(b"\n\n")]
        return [json.loads(data) for data in frames if data.startswith(b"{")]


async def listen(service: Service, path: str, body: Any, headers: dict[str, str] | None = None) -> ReceivedStream:
    pieces: list[bytes] = []
    last_s, gap_s = time.monotonic(), 0.0
    async with service.client() as client, client.stream("POST", path, json=body, headers=headers) as answer:
        async for piece in answer.aiter_raw():
            now_s = time.monotonic()
            last_s, gap_s = now_s, max(gap_s, now_s - last_s)
            pieces.append(piece)
        return ReceivedStream(answer.status_code, answer.headers, b"".join(pieces), gap_s)


async def listen_to_all(service: Service, model: str) -> list[ReceivedStream]:
    return await asyncio.gather(*(listen(service, PATHS[api], chat_body(api, model)) for api in APIS))


@pytest.mark.parametrize("midway", [False, True])
@pytest.mark.parametrize("engine_api", APIS)
async def test_official_sdks_read_a_stream_with_keep_alives(
    callers: tuple[Caller, ...], engines: tuple[ScriptedEngine, ScriptedEngine], engine_api: str, midway: bool
):
    engines[0].script = silent_engine(engine_api, midway=midway)
    for answer in await asyncio.gather(*(caller.stream(engine_api) for caller in callers)):
        assert (answer.text, answer.finish, answer.output_tokens) == ("Hello.", "stop", 2)


@pytest.mark.parametrize("midway", [False, True])
@pytest.mark.parametrize("engine_api", APIS)
async def test_caller_hears_something_in_each_silence(
    service: Service, engines: tuple[ScriptedEngine, ScriptedEngine], engine_api: str, midway: bool
):
    engines[0].script = silent_engine(engine_api, midway=midway)
    for api, received in zip(APIS, await listen_to_all(service, engine_api), strict=True):
        assert received.status == 200 and received.gap_s < LONGEST_GAP_S, received.gap_s
        assert received.body.count(KEEP_ALIVES[api]) >= 2
        assert ("x-narthex-served" in received.headers) is midway
        assert {"x-request-id", "request-id", "x-narthex-inference-id", "x-narthex-episode-id"} <= received.headers.keys()
        if api == "responses":
            events = received.events
            assert [event["sequence_number"] for event in events] == list(range(len(events)))
            kinds = [event["type"] for event in events]
            assert kinds[:2] == ["response.created", "response.in_progress"] and kinds.count("response.created") == 1
            assert kinds[-1] == "response.completed"
            assert len({event["response"]["id"] for event in events if "response" in event}) == 1


async def test_comments_of_a_host_are_replaced(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]):
    for midway in (False, True):
        engines[0].script = silent_engine("chat", midway=midway, comments=True)
        for api, received in zip(APIS, await listen_to_all(service, "chat"), strict=True):
            assert received.gap_s < LONGEST_GAP_S and received.body.count(KEEP_ALIVES[api]) >= 2, (api, midway, received.gap_s)
            assert b"OPENROUTER" not in received.body


async def test_completions_generate_and_inference_get_comments(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]):
    engines[0].script = silent_engine("chat", midway=False)
    received = await listen(service, "/inference", {"model_name": "chat", "input": {"messages": HI}, "stream": True})
    assert received.body.startswith(b": keep-alive\n\n: keep-alive\n\n") and received.body.endswith(b"data: [DONE]\n\n")

    async def texts(request: ReceivedRequest) -> None:
        await asyncio.sleep(SILENCE_S)
        request.begin_stream()
        request.send_event({**chunk(), "choices": [{"index": 0, "text": "Hi", "token_ids": [1], "finish_reason": "stop"}]})
        request.send_event(b"[DONE]")
        request.end_stream()

    engines[0].script = texts
    prompts: dict[str, dict[str, Any]] = {
        "/v1/completions": {"prompt": "Hi"},
        "/inference/v1/generate": {"token_ids": [1], "sampling_params": {}},
    }
    for path, prompt in prompts.items():
        received = await listen(service, path, {"model": "vllm", "stream": True, **prompt})
        assert received.body.startswith(b": keep-alive\n\n: keep-alive\n\n") and received.body.endswith(b"data: [DONE]\n\n"), received.body


async def test_answer_of_an_engine_that_does_not_stream_follows_keep_alives(
    callers: tuple[Caller, ...], engines: tuple[ScriptedEngine, ScriptedEngine]
):
    async def answers_late(request: ReceivedRequest) -> None:
        await asyncio.sleep(SILENCE_S)
        await request.respond_completion()

    engines[0].script = answers_late
    for answer in await asyncio.gather(*(caller.stream("never") for caller in callers)):
        assert (answer.text, answer.output_tokens) == ("Hello.", 2)


async def test_fallback_goes_on_behind_a_keep_alive(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]):
    engines[0].script = fails_late(503, {"error": {"message": "overloaded"}})
    engines[1].script = silent_engine("chat", midway=False)
    for received in await listen_to_all(service, "pair"):
        assert received.status == 200 and "x-narthex-served" not in received.headers and received.gap_s < LONGEST_GAP_S
        assert b"lo." in received.body and b'"error":{' not in received.body
        row = await service.wait_for_record(received.headers["x-narthex-inference-id"])
        assert (row["outcome"], row["status"], row["served_provider"]) == ("answered", 200, "second")
        assert [attempt["status"] for attempt in row["attempts"]] == [503, 200]


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503, 529])
async def test_failure_behind_a_keep_alive_says_what_its_status_would_have(
    service: Service, engines: tuple[ScriptedEngine, ScriptedEngine], status: int
):
    """The same error as a caller of a whole answer gets, who hears no keep-alive and so has a status."""
    engines[0].script = fails_late(status, {"error": {"message": "No luck.", "type": "x"}})
    requests = [chat_body(api, "chat", stream=stream) for stream in (False, True) for api in APIS]
    answers = await asyncio.gather(*(listen(service, PATHS[api], body) for api, body in zip(APIS * 2, requests, strict=True)))
    for api, whole, received in zip(APIS, answers[:3], answers[3:], strict=True):
        error = json.loads(whole.body)["error"]
        assert whole.status >= 400 and received.status == 200 and received.gap_s < LONGEST_GAP_S
        last = received.events[-1]
        if api == "responses":
            said = last if last["type"] == "error" else last["response"]["error"]
            assert said["message"] == error["message"]
            assert [event["sequence_number"] for event in received.events] == list(range(len(received.events)))
        else:
            assert last["error"] == error
        row = await service.wait_for_record(received.headers["x-narthex-inference-id"])
        assert (row["outcome"], row["status"]) == ("failed", 200) and row["error"]


async def test_official_sdks_raise_a_failure_behind_a_keep_alive(
    sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic, engines: tuple[ScriptedEngine, ScriptedEngine]
):
    engines[0].script = fails_late(429, {"error": {"message": "Too many."}})
    with pytest.raises(openai.APIError, match="Too many") as caught:
        await ChatCaller(sdk).stream("chat")
    assert caught.value.code == "server_is_overloaded"
    with pytest.raises(anthropic.APIStatusError, match="Too many"):
        await MessagesCaller(claude).stream("chat")


async def test_refusal_behind_a_keep_alive_is_counted_as_one(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]):
    engines[0].script = fails_late(401, {"error": {"message": "Wrong key."}})
    received = await listen(
        service, PATHS["chat"], chat_body("chat", "own-key"), {"x-upstream-key": "made-up", "x-request-id": "refused-late"}
    )
    assert received.status == 200 and received.events[-1]["error"]["code"] == 401
    async with service.admin_client() as admin:

        async def is_counted() -> bool:
            found = (await admin.get("/admin/v1/refusals", params={"request_id": "refused-late"})).json()["data"]
            return [each["status"] for each in found] == [401]

        await wait_until(is_counted, 60)


@pytest.mark.parametrize("api", APIS)
async def test_disconnect_behind_a_keep_alive_cancels_the_engine_at_once(
    service: Service, engines: tuple[ScriptedEngine, ScriptedEngine], api: str
):
    left = asyncio.Event()

    async def waits(request: ReceivedRequest) -> None:
        await request.disconnected.wait()
        left.set()

    engines[0].script = waits
    async with service.client() as client, client.stream("POST", PATHS[api], json=chat_body(api, "chat")) as answer:
        assert await anext(answer.aiter_raw())
        id = answer.headers["x-narthex-inference-id"]
    await asyncio.wait_for(left.wait(), 2)
    row = await service.wait_for_record(id)
    assert (row["outcome"], row["status"]) == ("disconnected", 200)


@pytest.mark.parametrize("midway", [False, True])
async def test_record_and_repetition_have_the_response_without_keep_alives(
    service: Service, engines: tuple[ScriptedEngine, ScriptedEngine], midway: bool
):
    engines[0].script = silent_engine("chat", midway=midway)

    async def send_both(api: str) -> tuple[ReceivedStream, ReceivedStream]:
        key = {"idempotency-key": f"kept-alive-{api}-{midway}"}
        received = await listen(service, PATHS[api], chat_body(api, "chat"), key)
        return received, await listen(service, PATHS[api], chat_body(api, "chat"), key)

    for api, (received, again) in zip(APIS, await asyncio.gather(*map(send_both, APIS)), strict=True):
        assert received.status == 200 and received.body.count(KEEP_ALIVES[api]) >= 2
        assert again.headers["x-narthex-replayed"] == "true" and again.headers["x-narthex-served"] == "first/m"
        assert again.body.count(KEEP_ALIVES[api]) == (1 if api == "responses" else 0)
        row = await service.wait_for_record(received.headers["x-narthex-inference-id"])
        assert row["content"]["response"].encode() == again.body
        if api == "responses":
            assert [event["sequence_number"] for event in again.events] == list(range(len(again.events)))
            async with service.client() as client:
                stored = await client.get(f"/v1/responses/{again.events[0]['response']['id']}")
            assert stored.json()["output"][0]["content"][0]["text"] == "Hello."
        else:
            assert received.body.replace(b": keep-alive\n\n", b"").replace(b'event: ping\ndata: {"type": "ping"}\n\n', b"") == again.body


async def test_whole_answers_wait_in_silence(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]):
    async def answers_late(request: ReceivedRequest) -> None:
        await asyncio.sleep(SILENCE_S)
        await request.respond_completion()

    engines[0].script = answers_late
    received = await listen(service, PATHS["chat"], chat_body("chat", "chat", stream=False))
    assert json.loads(received.body)["choices"][0]["message"]["content"] == "Hello." and received.gap_s > SILENCE_S
    assert received.headers["x-narthex-served"] == "first/m"


async def test_setting_of_0_waits_for_the_engine():
    service = await asyncio.to_thread(lambda: services.start(workers=1, stream_keep_alive_s=0, retries=0, drain_timeout_s=5))
    first = ScriptedEngine()
    try:
        await first.start()
        await asyncio.to_thread(configure, service, first, first)
        first.script = fails_late(400, {"error": {"message": "No luck."}})
        received = await listen(service, PATHS["chat"], chat_body("chat", "chat"))
        assert received.status == 400
        first.script = silent_engine("chat", midway=True)
        received = await listen(service, PATHS["chat"], chat_body("chat", "chat"))
        assert received.gap_s > SILENCE_S and b"keep-alive" not in received.body and received.headers["x-narthex-served"] == "first/m"
    finally:
        await first.stop()
        await asyncio.to_thread(services.stop, service)
