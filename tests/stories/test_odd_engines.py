"""Engines that answer, but oddly: what can be understood is, and the rest is an error that says what was odd."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.stories.scripted import HELLO, Asked, ScriptedEngine, chunk, completion, streaming
from tests.stories.service import Service

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "Hello!"}]


async def ask(client: httpx.AsyncClient, *, stream: bool, model: str = "scripted") -> httpx.Response:
    return await client.post(CHAT, json={"model": model, "messages": HI, "stream": stream})


def chats(engine: ScriptedEngine) -> list[Asked]:
    """What was asked of it, apart from probes of what it is."""
    return [asked for asked in engine.asked if asked.path == CHAT]


@pytest.mark.parametrize("kind", ["Text/Event-Stream; Charset=UTF-8", "text/plain", None])
async def test_a_stream_is_known_by_any_other_name(client: httpx.AsyncClient, engine: ScriptedEngine, kind: str | None):
    async def script(asked: Asked) -> None:
        told = f"content-type: {kind}\r\n" if kind else ""
        asked.write(f"HTTP/1.1 200 OK\r\n{told}transfer-encoding: chunked\r\n\r\n".encode())
        for frame in (*HELLO, b"[DONE]"):
            asked.frame(frame)
        asked.end_stream()

    engine.script = script
    answer = await ask(client, stream=True)
    assert (answer.status_code, answer.text.endswith("data: [DONE]\n\n")) == (200, True) and '"lo."' in answer.text


@pytest.mark.parametrize("stream", [False, True])
async def test_an_encoding_that_nobody_asked_for_is_named(client: httpx.AsyncClient, engine: ScriptedEngine, stream: bool):
    async def script(asked: Asked) -> None:
        assert "accept-encoding" not in asked.headers
        await asked.answer(200, b"\x1f\x8b\x08 and so on", "content-type: application/json\r\ncontent-encoding: gzip\r\n")

    engine.script = script
    answer = await ask(client, stream=stream)
    assert answer.status_code == 502 and "gzip" in answer.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("count", [-3, 2**31, 10**12])
async def test_a_count_that_is_none_costs_neither_the_answer_nor_its_record(
    client: httpx.AsyncClient, service: Service, engine: ScriptedEngine, stream: bool, count: int
):
    async def script(asked: Asked) -> None:
        usage = {"prompt_tokens": count, "completion_tokens": 2}
        if not stream:
            await asked.answer(200, json.dumps({**completion(), "usage": usage}).encode())
            return
        asked.begin_stream()
        for frame in (chunk({"content": "Hello."}), chunk({}, "stop", usage=usage), b"[DONE]"):
            asked.frame(frame)
        asked.end_stream()

    engine.script = script
    answer = await ask(client, stream=stream)
    assert answer.status_code == 200 and "Hello." in answer.text and '"error"' not in answer.text
    row = await service.recorded(answer.headers["x-narthex-inference-id"])
    assert (row["outcome"], row["input_tokens"], row["output_tokens"]) == ("answered", None, 2)


async def test_a_connection_is_kept_although_the_end_of_the_stream_comes_a_little_later(client: httpx.AsyncClient, engine: ScriptedEngine):
    """As it does where the engine writes [DONE] and the end of its chunks in two goes: most do."""

    async def script(asked: Asked) -> None:
        asked.begin_stream()
        for frame in (*HELLO, b"[DONE]"):
            asked.frame(frame)
        await asked.writer.drain()
        await asyncio.sleep(0.02)
        asked.end_stream()

    engine.script = script
    used: set[int] = set()
    for _ in range(3):  # a machine that is busy with other tests may be late with an end
        engine.asked.clear()
        for _ in range(5):
            assert (await ask(client, stream=True)).text.endswith("data: [DONE]\n\n")
            await asyncio.sleep(0.15)
        used = {id(asked.writer) for asked in chats(engine)}
        if len(used) == 1:
            break
    assert len(used) == 1


async def test_an_answer_goes_on_while_its_provider_is_configured_anew(
    client: httpx.AsyncClient, service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    def where(port: int) -> str:
        return f"""
            [providers]
            moving = {{ adapter = "openai", base_url = "http://127.0.0.1:{port}" }}
            [models]
            moving = {{ targets = [{{ provider = "moving", model = "engine-model" }}] }}
        """

    async def script(asked: Asked) -> None:
        asked.begin_stream()
        asked.frame(chunk({"content": "before"}))
        while not moved.is_set():  # a command may take longer than the silence that this service bears with
            await asyncio.sleep(0.1)
            asked.frame(chunk({"content": "."}))
        asked.frame(chunk({"content": "after"}, "stop"))
        asked.end_stream()

    moved = asyncio.Event()
    engine.script = script
    await asyncio.to_thread(service.apply, where(engine.port))
    asking = asyncio.create_task(ask(client, stream=True, model="moving"))
    while not chats(engine):
        await asyncio.sleep(0.01)
    await asyncio.to_thread(service.apply, where(second_engine.port))
    assert (await ask(client, stream=False, model="moving")).status_code == 200
    moved.set()
    text = (await asking).text
    assert "before" in text and "after" in text and text.endswith("data: [DONE]\n\n")
    assert (len(chats(engine)), len(chats(second_engine))) == (1, 1)


@pytest.mark.parametrize("usage", [[], "3", {"prompt_tokens": 3.5}, {"prompt_tokens": 3, "prompt_tokens_details": []}])
@pytest.mark.parametrize("stream", [False, True])
async def test_usage_that_cannot_be_read_costs_no_answer(client: httpx.AsyncClient, engine: ScriptedEngine, usage: Any, stream: bool):
    async def whole(asked: Asked) -> None:
        await asked.answer(200, json.dumps({**completion("Hello."), "usage": usage}).encode())

    engine.script = streaming(chunk({"content": "Hello."}), chunk({}, "stop"), chunk(None, usage=usage)) if stream else whole
    answer = await client.post("/v1/chat/completions", json={"model": "scripted", "messages": HI, "stream": stream})
    assert answer.status_code == 200 and "Hello." in answer.text and "error" not in answer.text


async def test_an_end_with_more_space_before_it_is_an_end(client: httpx.AsyncClient, engine: ScriptedEngine):
    engine.script = streaming(chunk({"content": "Hello."}, "stop"), b" [DONE]", done=False)
    answer = await client.post("/v1/chat/completions", json={"model": "scripted", "messages": HI, "stream": True})
    assert answer.text.endswith("data: [DONE]\n\n") and "error" not in answer.text
