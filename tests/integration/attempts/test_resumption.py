"""x-narthex-resume: a stream that breaks off goes on elsewhere, without a repeated or missing character."""

import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.support.processes.service import Service
from tests.support.scripted_engine import ReceivedRequest, Script, ScriptedEngine, chunk

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"
RESUME = {"x-narthex-resume": "true"}
ERROR = {"error": {"message": "CUDA error", "code": 500}}
TEXT = "One two three four five six seven."


@pytest.fixture(scope="module", autouse=True)
def models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one, two = (f"http://127.0.0.1:{engine.port}" for engine in engines)
    service.apply(f"""
        [providers]
        here = {{ adapter = "vllm", base_url = "{one}", options = {{ version = "0.32.0" }} }}
        there = {{ adapter = "vllm", base_url = "{two}", options = {{ version = "0.32.0" }} }}
        unable-here = {{ adapter = "openai", base_url = "{one}" }}
        unable = {{ adapter = "openai", base_url = "{two}" }}
        claude = {{ adapter = "anthropic", base_url = "{two}", credential = "env:PATH" }}
        [models]
        goes-on = {{ targets = [{{ provider = "here", model = "m" }}, {{ provider = "there", model = "m" }}] }}
        chat-only = {{ targets = [
            {{ provider = "here", model = "m", dialect = "openai_chat" }}, {{ provider = "there", model = "m", dialect = "openai_chat" }},
        ] }}
        cannot-alone = {{ targets = [{{ provider = "unable-here", model = "m" }}] }}
        alone = {{ targets = [{{ provider = "here", model = "m" }}] }}
        other-model-there = {{ targets = [{{ provider = "here", model = "m" }}, {{ provider = "here", model = "n" }}] }}
        fallback-there = {{ targets = [{{ provider = "here", model = "m" }}], fallbacks = ["other-there"] }}
        other-there = {{ targets = [{{ provider = "here", model = "n" }}] }}
        two-endpoints = {{ targets = [{{ provider = "here", model = "m", endpoints = ["{one}", "{two}"] }}] }}
        cannot = {{ targets = [{{ provider = "here", model = "m" }}, {{ provider = "unable", model = "m" }}] }}
        to-claude = {{ targets = [{{ provider = "here", model = "m" }}, {{ provider = "claude", model = "claude-3-5-haiku-latest" }}] }}
        to-new-claude = {{ targets = [{{ provider = "here", model = "m" }}, {{ provider = "claude", model = "claude-opus-4-7" }}] }}
    """)


def words(text: str) -> list[str]:
    return [part if at == 0 else f" {part}" for at, part in enumerate(text.split(" "))]


def writes_then_breaks(text: str, *, how: str = "error") -> Script:
    """An engine that streams this text and then breaks off."""

    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"role": "assistant", "content": ""}))
        for part in words(text):
            request.send_event(chunk({"content": part}))
        await request.writer.drain()
        match how:
            case "reset":
                request.reset_connection()
            case "error":
                request.send_event(ERROR)
                request.end_stream()
            case "end":
                request.end_stream()
            case _:
                await request.disconnected.wait()

    return script


def goes_on(whole: str = TEXT) -> Script:
    """An engine that goes on after the text that it is given, as vLLM does."""

    async def script(request: ReceivedRequest) -> None:
        body = request.body
        last = body["messages"][-1]
        if last["role"] != "assistant":
            rest = whole
        else:
            assert body["continue_final_message"] is True and body["add_generation_prompt"] is False
            written = last["content"] if isinstance(last["content"], str) else last["content"][0]["text"]
            assert whole.startswith(written) and written == written.rstrip()
            rest = whole[len(written) :]
        request.begin_stream()
        request.send_event(chunk({"role": "assistant", "content": ""}))
        for at in range(0, len(rest), 3):
            request.send_event(chunk({"content": rest[at : at + 3]}))
        request.send_event(chunk({}, "stop"))
        if body["stream_options"]["include_usage"]:
            request.send_event({**chunk(), "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}})
        request.send_event(b"[DONE]")
        request.end_stream()

    return script


def once(engine: ScriptedEngine, script: Script) -> Script:
    """The first request gets this, all others a 503."""

    async def respond(request: ReceivedRequest) -> None:
        if len(engine.requests) > 1:
            await request.respond(503, b"{}")
        else:
            await script(request)

    return respond


async def read_stream(client: httpx2.AsyncClient, **body: Any) -> tuple[str, list[dict[str, Any]], str]:
    """The text, all frames, and the inference's id."""
    request = {"messages": HI, "stream": True, "stream_options": {"include_usage": True}, **body}
    async with client.stream("POST", CHAT, json=request, headers=RESUME) as response:
        assert response.status_code == 200
        lines = [line async for line in response.aiter_lines() if line.startswith("data: {")]
    frames = [json.loads(line[6:]) for line in lines]
    text = "".join(frame["choices"][0]["delta"].get("content") or "" for frame in frames if frame.get("choices"))
    return text, frames, response.headers["x-narthex-inference-id"]


@pytest.mark.parametrize("how", ["reset", "error", "end", "hang"])
@pytest.mark.parametrize("written", ["", "One", "One two three", "One two three "])
async def test_stream_goes_on_where_it_broke_off(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, written: str, how: str
):
    engine.script, second_engine.script = writes_then_breaks(written, how=how), goes_on()
    text, frames, id = await read_stream(client, model="goes-on")
    assert text == TEXT and not any("error" in frame for frame in frames)
    assert len({frame["id"] for frame in frames}) == 1
    assert [frame["choices"][0]["finish_reason"] for frame in frames if frame.get("choices")].count("stop") == 1
    record = await service.wait_for_record(id)
    first, second = record["attempts"]
    assert (record["outcome"], record["served_provider"]) == ("answered", "there")
    assert first["error"] is not None and first["resumed_at"] is None
    # As long as nothing was sent to the caller it is a retry; a reset may come before what was written.
    assert second["error"] is None and (second["resumed_at"] == (len(written) or None) or how == "reset")
    # The first response is charged by an estimate, the second as reported.
    assert first["output_tokens"] >= len(written.split()) or how == "reset"
    assert (second["input_tokens"], second["output_tokens"]) == (11, 5)
    assert record["charged_output"] == first["output_tokens"] + 5


async def test_usage_and_limits_count_the_whole_response(client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine):
    engine.script, second_engine.script = writes_then_breaks("One two three"), goes_on()
    _, frames, _ = await read_stream(client, model="goes-on", max_tokens=20)
    usage = next(frame["usage"] for frame in frames if frame.get("usage"))
    assert (usage["completion_tokens"], usage["prompt_tokens"]) == (8, 8)  # 3 that came, and 5; 11 less those 3
    assert second_engine.requests[0].body["max_completion_tokens"] == 17


async def test_part_that_came_counts_as_the_engine_says(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    async def breaks(request: ReceivedRequest) -> None:
        assert request.body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
        request.begin_stream()
        for text, tokens in (("One two", 6), (" three", 9)):
            usage = {"prompt_tokens": 4, "completion_tokens": tokens, "total_tokens": 4 + tokens}
            request.send_event({**chunk({"content": text}), "usage": usage})
        request.send_event(ERROR)
        request.end_stream()

    engine.script, second_engine.script = breaks, goes_on()
    text, frames, id = await read_stream(client, model="goes-on")
    assert text == TEXT
    (usage,) = [frame["usage"] for frame in frames if frame.get("usage")]
    assert (usage["completion_tokens"], usage["prompt_tokens"]) == (14, 4)
    record = await service.wait_for_record(id)
    assert [(each["input_tokens"], each["output_tokens"]) for each in record["attempts"]] == [(4, 9), (11, 5)]


async def test_usage_throughout_is_requested_only_of_a_stream_that_may_go_on(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = goes_on()
    async with client.stream("POST", CHAT, json={"model": "alone", "messages": HI, "stream": True}) as response:
        await response.aread()
    assert engine.requests[0].body["stream_options"] == {"include_usage": True}


async def test_other_endpoint_of_the_target_goes_on(client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine):
    engine.script = second_engine.script = breaks_once = writes_then_breaks("One two")

    async def second(request: ReceivedRequest) -> None:
        await goes_on()(request)

    def switch(breaking: ScriptedEngine, other: ScriptedEngine) -> None:
        async def script(request: ReceivedRequest) -> None:
            other.script = second
            await breaks_once(request)

        breaking.script = script

    switch(engine, second_engine)
    switch(second_engine, engine)
    text, _, _ = await read_stream(client, model="two-endpoints")
    assert text == TEXT and len(engine.requests) == len(second_engine.requests) == 1


async def test_lone_endpoint_goes_on_itself(client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def script(request: ReceivedRequest) -> None:
        await (writes_then_breaks("One two three") if len(engine.requests) == 1 else goes_on())(request)

    engine.script = script
    assert (await read_stream(client, model="alone"))[0] == TEXT


@pytest.mark.parametrize("model", ["other-model-there", "fallback-there"])
async def test_target_at_the_same_address_goes_on_where_the_first_one_always_breaks_off(
    client: httpx2.AsyncClient, engine: ScriptedEngine, model: str
):
    async def script(request: ReceivedRequest) -> None:
        if request.body["model"] == "n":
            return await goes_on()(request)
        await writes_then_breaks("One two" if len(engine.requests) == 1 else " three")(request)

    engine.script = script
    text, frames, _ = await read_stream(client, model=model)
    assert text == TEXT and not any("error" in frame for frame in frames)
    assert [request.body["model"] for request in engine.requests] == ["m", "n"]


@pytest.mark.parametrize("model", ["cannot", "to-new-claude", "cannot-alone"])
async def test_error_is_sent_where_nobody_can_go_on(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, model: str
):
    engine.script, second_engine.script = once(engine, writes_then_breaks("One two")), goes_on()
    text, frames, id = await read_stream(client, model=model)
    assert text == "One two" and frames[-1]["error"]["type"] and not second_engine.requests
    record = await service.wait_for_record(id)
    assert record["outcome"] == "failed" and record["served_provider"] in ("here", "unable-here")
    first = record["attempts"][0]
    assert first["output_tokens"] >= 2 and record["charged_output"] == sum(each["output_tokens"] for each in record["attempts"])


async def test_nothing_is_resumed_unless_it_is_requested(client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine):
    engine.script, second_engine.script = writes_then_breaks("One two"), goes_on()
    request = {"model": "goes-on", "messages": HI, "stream": True}
    for headers in ({}, {"x-narthex-resume": "false"}):
        async with client.stream("POST", CHAT, json=request, headers=headers) as response:
            assert '"error"' in (await response.aread()).decode()
    assert not second_engine.requests
    refused = await client.post(CHAT, json=request, headers={"x-narthex-resume": "yes"})
    assert refused.status_code == 400 and "x-narthex-resume" in refused.text


@pytest.mark.parametrize(
    ("sent", "more"),
    [
        ({"reasoning_content": "Well"}, {}),
        ({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}]}, {}),
        ({"content": '{"a'}, {"response_format": {"type": "json_object"}}),
        ({"content": "One ST"}, {"stop": ["STOP"]}),
    ],
    ids=["reasoning", "tool_call", "constraint", "part_of_a_stop_string"],
)
async def test_only_plain_text_is_gone_on_with(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine, sent: dict[str, Any], more: dict[str, Any]
):
    async def script(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"role": "assistant", **sent}))
        request.send_event(ERROR)
        request.end_stream()

    engine.script, second_engine.script = script, goes_on()
    _, frames, _ = await read_stream(client, model="goes-on", **more)
    assert "error" in frames[-1] and not second_engine.requests


async def test_continuation_that_reasons_is_not_passed_on(
    client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    async def reasons(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(chunk({"role": "assistant", "reasoning_content": "Hm"}))
        request.send_event(chunk({"content": "Other."}, "stop"))
        request.send_event(b"[DONE]")
        request.end_stream()

    engine.script, second_engine.script = once(engine, writes_then_breaks("One two")), reasons
    text, frames, _ = await read_stream(client, model="goes-on")
    assert text == "One two" and "error" in frames[-1]


async def test_claude_goes_on_for_a_caller_of_chat(client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine):
    async def claude_engine(request: ReceivedRequest) -> None:
        assert request.body["messages"][-1] == {"role": "assistant", "content": "One two"}
        request.begin_stream()
        message: Any = {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [], "usage": {"input_tokens": 9}}
        for event in (
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " three."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ):
            request.send_chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        request.end_stream()

    engine.script, second_engine.script = writes_then_breaks("One two "), claude_engine
    text, frames, _ = await read_stream(client, model="to-claude")
    assert text == "One two three." and not any("error" in frame for frame in frames)


async def test_every_streaming_sdk_reads_a_response_with_a_joint(
    sdk: openai.AsyncOpenAI, claude: anthropic.AsyncAnthropic, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    engine.script, second_engine.script = writes_then_breaks("One two three"), goes_on()
    async with claude.messages.stream(model="chat-only", messages=HI, max_tokens=50, extra_headers=RESUME) as stream:
        assert await stream.get_final_text() == TEXT
    async with sdk.responses.stream(model="chat-only", input="Hello!", extra_headers=RESUME) as stream:
        assert (await stream.get_final_response()).output_text == TEXT


async def test_raw_prompts_go_on_everywhere(client: httpx2.AsyncClient, engine: ScriptedEngine, second_engine: ScriptedEngine):
    def frame(text: str, finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "finish_reason": finish_reason, "logprobs": None}
        return {"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice]}

    async def breaks(request: ReceivedRequest) -> None:
        request.begin_stream()
        request.send_event(frame(" there was "))
        request.end_stream()

    async def rest(request: ReceivedRequest) -> None:
        assert request.body["prompt"] == "Once there was "
        request.begin_stream()
        request.send_event(frame(" a king.", "stop"))
        request.send_event(b"[DONE]")
        request.end_stream()

    engine.script, second_engine.script = breaks, rest
    body = {"model": "cannot", "prompt": "Once", "stream": True}
    async with client.stream("POST", "/v1/completions", json=body, headers=RESUME) as response:
        lines = [json.loads(line[6:]) async for line in response.aiter_lines() if line.startswith("data: {")]
    assert "".join(line["choices"][0]["text"] for line in lines if line.get("choices")) == " there was  a king.", lines


async def test_sandbox_goes_on(client: httpx2.AsyncClient):
    """The sandbox goes on four times: it dies after each few tokens."""
    body = {"model": "sandbox", "messages": HI, "seed": 1}
    whole = await client.post(CHAT, json={**body, "sandbox": {"tokens": 20}})
    text, _, _ = await read_stream(client, **body, sandbox={"tokens": 20, "die_after": 7})
    assert text == whole.json()["choices"][0]["message"]["content"]
