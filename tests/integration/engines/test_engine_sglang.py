"""SGLang behind the gateway, called through the official SDKs of three APIs: no field is silently ignored, disconnects abort."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.support.engines.openai_output import ModelOutput
from tests.support.engines.sglang import UNSTOPPED_TOKENS, ScriptedSGLang
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest
from tests.support.sdk_callers import HI, PARAMETERS, Caller, ChatCaller, SdkResponse

GBNF = 'root ::= "a" | "b"'
TAG = {"format": {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture(scope="module")
async def running(service: Service) -> AsyncGenerator[ScriptedSGLang]:
    engine = ScriptedSGLang()
    await engine.server.start()
    service.apply(f"""
        [providers]
        sglang = {{ adapter = "sglang", base_url = "http://127.0.0.1:{engine.server.port}" }}
        again = {{ adapter = "sglang", base_url = "http://127.0.0.1:{engine.server.port}/v1" }}
        [models]
        sglang = {{ targets = [{{ provider = "sglang", model = "engine-model" }}] }}
        sglang-again = {{ targets = [{{ provider = "sglang", model = "engine-model" }}, {{ provider = "again", model = "engine-model" }}] }}
    """)
    yield engine
    await engine.server.stop()


@pytest.fixture
def sglang(running: ScriptedSGLang) -> ScriptedSGLang:
    running.reset()
    return running


async def send(caller: Caller, stream: bool, **more: Any) -> SdkResponse:
    return await (caller.stream if stream else caller.create)("sglang", **more)


each_stream_mode = pytest.mark.parametrize("stream", [False, True], ids=["unstreamed", "streamed"])


@each_stream_mode
async def test_response_carries_text_reasoning_and_usage(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.output = ModelOutput("Hello there.", reasoning="Greet them.", finish_fields={"matched_stop": 2})
    response = await send(caller, stream)
    assert (response.text, response.reasoning, response.finish, response.output_tokens) == ("Hello there.", "Greet them.", "stop", 2)
    assert (response.guided, response.dropped, sglang.ignored_fields) == (None, None, set())


@each_stream_mode
async def test_tool_calls_reach_the_caller(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.output = ModelOutput(calls=(("weather", '{"city": "Rome"}'), ("weather", '{"city": "Paris"}')))
    response = await send(caller, stream, tools=list(caller.tools))
    assert response.calls == sglang.output.calls and response.finish == "tool_calls"
    assert sglang.bodies[0]["tools"][0]["function"]["parameters"] == PARAMETERS
    assert sglang.ignored_fields == set()


@each_stream_mode
async def test_json_schema_of_each_api_is_enforced(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.output = ModelOutput('{"a": 1}')
    response = await send(caller, stream, **caller.schema_fields(SCHEMA))
    assert (json.loads(response.text), response.guided) == ({"a": 1}, "enforced")
    assert sglang.bodies[0]["response_format"]["json_schema"]["schema"] == SCHEMA


# A constraint that any caller may send beside the fields of their API; what SGLang gets; the x-narthex-guided header.
CONSTRAINTS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"guided_regex": "[a-z]+"}, {"regex": "[a-z]+"}, "enforced"),
    ({"guided_choice": ["yes", "no"]}, {"regex": "(yes|no)"}, "converted"),
    ({"guided_grammar": GBNF}, {"ebnf": GBNF}, "enforced"),
    ({"structural_tag": TAG}, {"response_format": {**TAG, "type": "structural_tag"}}, "enforced"),
    ({"structured_outputs": {"json_object": True}}, {"response_format": {"type": "json_object"}}, "enforced"),
]


@pytest.mark.parametrize(("constraint", "sent", "guided"), CONSTRAINTS, ids=[next(iter(each[0])) for each in CONSTRAINTS])
async def test_each_constraint_is_sent_in_sglang_fields(
    caller: Caller, sglang: ScriptedSGLang, constraint: dict[str, Any], sent: dict[str, Any], guided: str
):
    sglang.output = ModelOutput("yes")
    response = await caller.create("sglang", extra_body=constraint)
    assert (response.text, response.guided, sglang.ignored_fields) == ("yes", guided, set())
    assert sglang.bodies[0].items() >= sent.items()


async def test_unsupported_field_is_refused_without_an_upstream_call_or_dropped_and_reported(
    sdk: openai.AsyncOpenAI, sglang: ScriptedSGLang
):
    with pytest.raises(openai.UnprocessableEntityError, match="length_penalty"):
        await ChatCaller(sdk).create("sglang", extra_body={"length_penalty": 1.5})
    assert sglang.bodies == []
    response = await ChatCaller(sdk).create(
        "sglang", user="u", extra_body={"length_penalty": 1.5}, extra_headers={"x-narthex-drop": "length_penalty"}
    )
    assert (response.dropped, sglang.ignored_fields) == ("length_penalty, user", set())


async def test_schema_beside_tools_is_demanded_in_the_prompt(caller: Caller, sglang: ScriptedSGLang):
    sglang.output = ModelOutput('{"a": 1}')
    response = await caller.create("sglang", tools=list(caller.tools), **caller.schema_fields(SCHEMA))
    assert (response.text, response.guided, sglang.ignored_fields) == ('{"a": 1}', "validated", set())
    [body] = sglang.bodies
    assert body["tools"] and "response_format" not in body and "JSON schema" in body["messages"][0]["content"]


async def test_grammar_beside_tools_is_refused(sdk: openai.AsyncOpenAI, sglang: ScriptedSGLang):
    with pytest.raises(openai.UnprocessableEntityError, match=r"`tools`.*no calls"):
        await ChatCaller(sdk).create("sglang", tools=list(ChatCaller.tools), extra_body={"ebnf": GBNF})
    assert sglang.bodies == []


async def test_lark_grammar_is_refused_without_an_upstream_call(sdk: openai.AsyncOpenAI, sglang: ScriptedSGLang):
    with pytest.raises(openai.UnprocessableEntityError, match="Lark"):
        await ChatCaller(sdk).create("sglang", extra_body={"guided_grammar": 'start: "a" | "b"'})
    assert sglang.bodies == []


@each_stream_mode
async def test_full_queue_is_503(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.queue_full = True
    with pytest.raises((openai.InternalServerError, anthropic.InternalServerError), match="queue is full") as raised:
        await send(caller, stream)
    assert raised.value.status_code == 503


@pytest.mark.parametrize(
    ("engine_status", "code", "status"), [(408, "queue_timeout", 503), (429, "queue_full", 429), (503, "no_available_workers", 503)]
)
async def test_router_queue_errors_are_overloads_with_retry_after(
    client: httpx2.AsyncClient, sglang: ScriptedSGLang, engine_status: int, code: str, status: int
):
    async def router(request: ReceivedRequest) -> None:
        body = json.dumps({"error": {"type": "x", "code": code, "message": "too much to do", "param": None}}).encode()
        await request.respond(engine_status, body, f"content-type: application/json\r\nx-smg-error-code: {code}\r\nretry-after: 2\r\n")

    sglang.server.script = router
    answer = await client.post("/v1/chat/completions", json={"model": "sglang", "messages": HI})
    assert (answer.status_code, answer.headers["retry-after"]) == (status, "2")
    error = answer.json()["error"]
    assert (error["message"], error["type"], error["param"]) == ("too much to do", "service_unavailable_error", None)
    assert error["details"] == {"provider": "sglang", "provider_status": engine_status, "provider_code": code}


@each_stream_mode
async def test_engine_400_is_passed_to_the_caller(client: httpx2.AsyncClient, sglang: ScriptedSGLang, stream: bool):
    body = {"model": "sglang", "messages": HI, "stop": [str(number) for number in range(33)], "stream": stream}
    answer = await client.post("/v1/chat/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "at most 32 stop strings")


@each_stream_mode
async def test_grammar_compile_error_is_a_400_even_after_the_stream_began(client: httpx2.AsyncClient, sglang: ScriptedSGLang, stream: bool):
    sglang.grammar_compiles = False
    body = {"model": "sglang", "messages": HI, "guided_grammar": GBNF, "stream": stream}
    answer = await client.post("/v1/chat/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "Failed to compile ebnf grammar: no root")


@each_stream_mode
async def test_aborted_generation_is_an_error(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.output = ModelOutput("Hel", finish="abort")
    with pytest.raises((openai.APIError, anthropic.APIError, AssertionError), match="aborted its response"):
        await send(caller, stream)


async def test_logprobs_are_passed_through(sdk: openai.AsyncOpenAI, sglang: ScriptedSGLang):
    entry = {"token": "Hi", "bytes": [72, 105], "logprob": -0.5, "top_logprobs": [{"token": "Hi", "bytes": [72, 105], "logprob": -0.5}]}
    sglang.output = ModelOutput("Hi", logprobs={"content": [entry]})
    answer = await sdk.chat.completions.create(model="sglang", messages=HI, logprobs=True, top_logprobs=1)
    assert answer.choices[0].logprobs is not None and answer.choices[0].logprobs.content is not None
    assert answer.choices[0].logprobs.content[0].model_dump() == entry
    assert (sglang.bodies[0]["logprobs"], sglang.bodies[0]["top_logprobs"]) == (True, 1)


@each_stream_mode
async def test_client_disconnect_aborts_the_generation(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.slow = True
    pending = asyncio.create_task(send(caller, stream))
    await wait_until(lambda: any(tokens > 3 for tokens in sglang.tokens_made.values()))
    pending.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await pending
    await wait_until(lambda: sglang.aborted != [])
    rid = sglang.bodies[0]["rid"]
    assert sglang.aborted == [rid]
    tokens = sglang.tokens_made[rid]
    await asyncio.sleep(0.1)
    assert sglang.tokens_made[rid] == tokens < UNSTOPPED_TOKENS


@each_stream_mode
async def test_finished_generation_is_not_aborted(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    for _ in range(2):
        await send(caller, stream)
    await asyncio.sleep(0.1)
    assert sglang.aborted == []
    rids = [body["rid"] for body in sglang.bodies]
    assert len(set(rids)) == 2


async def test_refused_request_is_not_aborted(client: httpx2.AsyncClient, sglang: ScriptedSGLang):
    sglang.queue_full = True
    answer = await client.post("/v1/chat/completions", json={"model": "sglang", "messages": HI})
    await asyncio.sleep(0.1)
    assert (answer.status_code, sglang.aborted) == (503, [])


async def test_retry_on_the_same_engine_uses_a_new_request_id_and_aborts_the_first(client: httpx2.AsyncClient, sglang: ScriptedSGLang):
    async def break_once(request: ReceivedRequest) -> None:
        if request.path != "/v1/chat/completions" or sglang.bodies:
            return await sglang.handle(request)
        sglang.bodies.append(request.body)
        request.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
        await request.writer.drain()
        request.reset_connection()

    sglang.server.script = break_once
    answer = await client.post("/v1/chat/completions", json={"model": "sglang-again", "messages": HI})
    assert answer.status_code == 200
    first, second = (body["rid"] for body in sglang.bodies)
    assert first == answer.headers["x-narthex-inference-id"] and not second.startswith(first)
    await wait_until(lambda: sglang.aborted != [])
    assert sglang.aborted == [first]
