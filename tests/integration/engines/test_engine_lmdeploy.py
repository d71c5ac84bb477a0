"""LMDeploy and its proxy behind the gateway, called through the official SDKs of three APIs."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.support.engines.lmdeploy import ScriptedLMDeploy, ScriptedProxy
from tests.support.engines.openai_output import ModelOutput
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.sdk_callers import HI, PARAMETERS, Caller, ChatCaller, SdkResponse

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture(scope="module")
async def running(service: Service) -> AsyncGenerator[tuple[ScriptedLMDeploy, ScriptedProxy]]:
    engine, proxy = ScriptedLMDeploy(), ScriptedProxy()
    await engine.server.start()
    await proxy.server.start()
    url, proxy_url = f"http://127.0.0.1:{engine.server.port}/v1", f"http://127.0.0.1:{proxy.server.port}"
    service.apply(f"""
        [providers]
        lmdeploy = {{ adapter = "lmdeploy", base_url = "{url}" }}
        lmdeploy-now = {{ adapter = "lmdeploy", base_url = "{url}", options = {{ version = "0.18.0" }} }}
        lmdeploy-proxy = {{ adapter = "lmdeploy", base_url = "{proxy_url}" }}
        [models]
        lmdeploy = {{ targets = [{{ provider = "lmdeploy", model = "engine-model" }}] }}
        lmdeploy-now = {{ targets = [{{ provider = "lmdeploy-now", model = "engine-model" }}] }}
        lmdeploy-proxy = {{ targets = [{{ provider = "lmdeploy-proxy", model = "engine-model" }}] }}
        lmdeploy-backed = {{ targets = [{{ provider = "lmdeploy-proxy", model = "engine-model" }}], fallbacks = ["lmdeploy"] }}
    """)
    yield engine, proxy
    await engine.server.stop()
    await proxy.server.stop()


@pytest.fixture
def lmdeploy(running: tuple[ScriptedLMDeploy, ScriptedProxy]) -> ScriptedLMDeploy:
    running[0].reset()
    return running[0]


@pytest.fixture
def proxy(running: tuple[ScriptedLMDeploy, ScriptedProxy]) -> ScriptedProxy:
    running[1].reset()
    return running[1]


async def send(caller: Caller, stream: bool, model: str = "lmdeploy", **more: Any) -> SdkResponse:
    return await (caller.stream if stream else caller.create)(model, **more)


each_stream_mode = pytest.mark.parametrize("stream", [False, True], ids=["unstreamed", "streamed"])


@each_stream_mode
async def test_response_carries_text_reasoning_and_usage(caller: Caller, lmdeploy: ScriptedLMDeploy, stream: bool):
    lmdeploy.output = ModelOutput("Hello there.", reasoning="Greet them.")
    response = await send(caller, stream)
    assert (response.text, response.reasoning, response.finish, response.output_tokens) == ("Hello there.", "Greet them.", "stop", 2)
    assert (response.guided, response.dropped, lmdeploy.ignored_fields) == (None, None, set())


@each_stream_mode
async def test_tool_calls_reach_the_caller(caller: Caller, lmdeploy: ScriptedLMDeploy, stream: bool):
    lmdeploy.output = ModelOutput(calls=(("weather", '{"city": "Rome"}'),))
    response = await send(caller, stream, tools=list(caller.tools))
    assert (response.calls, response.finish, lmdeploy.ignored_fields) == (lmdeploy.output.calls, "tool_calls", set())
    assert lmdeploy.bodies[0]["tools"][0]["function"]["parameters"] == PARAMETERS


@each_stream_mode
@pytest.mark.parametrize(("model", "guided"), [("lmdeploy", "validated"), ("lmdeploy-now", "enforced")])
async def test_json_schema_of_each_api_is_sent_and_validated_or_enforced_by_version(
    caller: Caller, lmdeploy: ScriptedLMDeploy, stream: bool, model: str, guided: str
):
    lmdeploy.output = ModelOutput('{"a": 1}')
    response = await send(caller, stream, model, **caller.schema_fields(SCHEMA))
    assert (json.loads(response.text), response.guided) == ({"a": 1}, guided)
    assert lmdeploy.bodies[0]["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize("constraint", [{"guided_regex": "yes|no"}, {"guided_choice": ["yes", "no"]}], ids=["regex", "choice"])
async def test_guided_regex_and_choice_are_sent_as_regex_schema(caller: Caller, lmdeploy: ScriptedLMDeploy, constraint: dict[str, Any]):
    lmdeploy.output = ModelOutput("yes")
    response = await caller.create("lmdeploy-now", extra_body=constraint)
    assert (response.text, response.guided) == ("yes", "enforced" if "guided_regex" in constraint else "converted")
    assert lmdeploy.bodies[0]["response_format"] in (
        {"type": "regex_schema", "regex_schema": "yes|no"},
        {"type": "regex_schema", "regex_schema": "(yes|no)"},
    )


async def test_regex_schema_response_format_passes_through_and_is_validated(sdk: openai.AsyncOpenAI, lmdeploy: ScriptedLMDeploy):
    format = {"type": "regex_schema", "regex_schema": "call me [A-Za-z]{1,10}"}
    lmdeploy.output = ModelOutput("call me Ann")
    response = await ChatCaller(sdk).create("lmdeploy", extra_body={"response_format": format})
    assert (response.text, response.guided, lmdeploy.bodies[0]["response_format"]) == ("call me Ann", "validated", format)


@pytest.mark.parametrize(
    "constraint", [{"guided_grammar": 'root ::= "a"'}, {"structural_tag": {"format": {"type": "any_text"}}}], ids=["grammar", "tag"]
)
async def test_unsupported_grammar_and_structural_tag_are_refused_without_an_upstream_call(
    caller: Caller, lmdeploy: ScriptedLMDeploy, constraint: dict[str, Any]
):
    with pytest.raises((openai.UnprocessableEntityError, anthropic.UnprocessableEntityError), match=next(iter(constraint))):
        await caller.create("lmdeploy-now", extra_body=constraint)
    assert lmdeploy.bodies == []


OBJECT: Any = {"type": "object", "properties": {}}


async def test_every_documented_field_is_forwarded_neutral_or_reported(client: httpx2.AsyncClient, lmdeploy: ScriptedLMDeploy):
    fields: dict[str, Any] = {
        **{"temperature": 0.1, "top_p": 0.9, "n": 1, "stream": False, "max_completion_tokens": 7, "max_tokens": 7},
        **{"repetition_penalty": 1.1},
        **{"stop": "x", "top_k": -1, "ignore_eos": True, "skip_special_tokens": False, "spaces_between_special_tokens": False, "seed": 3},
        **{"min_new_tokens": 2, "min_p": 0.1, "session_id": 5, "do_preprocess": True, "logprobs": True, "top_logprobs": 2},
        **{"chat_template_kwargs": {"a": 1}, "mm_processor_kwargs": {"a": 1}, "enable_thinking": True, "reasoning_effort": "low"},
        **{"return_token_ids": True, "include_stop_str_in_output": True, "presence_penalty": 0, "frequency_penalty": 0.0, "user": "u"},
        **{"tools": [{"type": "function", "function": {"name": "f", "parameters": OBJECT}}], "tool_choice": "auto", "logit_bias": {}},
    }
    answer = await client.post("/v1/chat/completions", json={"model": "lmdeploy", "messages": "Hello!", **fields})
    assert (answer.status_code, answer.headers.get("x-narthex-dropped"), lmdeploy.ignored_fields) == (200, "user", set())
    sent = lmdeploy.bodies[0]
    neutral_or_dropped = {"n", "stream", "do_preprocess", "presence_penalty", "frequency_penalty", "user", "logit_bias", "top_k"}
    neutral_or_dropped.add("max_tokens")  # of several bounds one is sent
    assert sent.items() >= {key: value for key, value in fields.items() if key not in neutral_or_dropped}.items()
    assert (sent["messages"], sent["top_k"]) == (HI, 0)


async def test_do_preprocess_false_chat_is_sent_as_a_text_completion(client: httpx2.AsyncClient, lmdeploy: ScriptedLMDeploy):
    """LMDeploy's `do_preprocess: false` takes `messages` as a raw prompt; 0.18 no longer has it."""
    lmdeploy.output = ModelOutput(" and so on")
    body = {"model": "lmdeploy", "messages": "Once", "do_preprocess": False, "max_tokens": 9, "stream": False}
    answer = await client.post("/v1/chat/completions", json=body)
    assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, " and so on")
    assert (lmdeploy.paths, lmdeploy.bodies[0]["prompt"], lmdeploy.ignored_fields) == (["/v1/completions"], "Once", set())


@each_stream_mode
async def test_silently_dropped_constraint_is_detected(caller: Caller, lmdeploy: ScriptedLMDeploy, stream: bool):
    """TurboMind of 0.16 responds with 200 and free text to a schema that it cannot compile."""
    lmdeploy.drops_constraints = True
    with pytest.raises((openai.APIError, anthropic.APIError), match="failed validation"):
        await send(caller, stream, **caller.schema_fields(SCHEMA))


@pytest.mark.parametrize(("engine_status", "status"), [(409, 409), (499, 502), (503, 503)])
async def test_flat_engine_errors_are_translated_into_the_openai_envelope(
    client: httpx2.AsyncClient, lmdeploy: ScriptedLMDeploy, engine_status: int, status: int
):
    lmdeploy.forced_response = (
        engine_status,
        {"message": "what went wrong", "type": "server_error", "code": engine_status, "param": None, "object": "error"},
    )
    answer = await client.post("/v1/chat/completions", json={"model": "lmdeploy", "messages": HI})
    assert (answer.status_code, answer.json()["error"]["message"]) == (status, "what went wrong")


async def test_occupied_session_id_is_a_400(client: httpx2.AsyncClient, lmdeploy: ScriptedLMDeploy):
    answer = await client.post("/v1/chat/completions", json={"model": "lmdeploy", "messages": HI, "session_id": 13})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "The session_id 13 is occupied.")


async def test_client_disconnect_closes_the_upstream_stream_without_abort_call(caller: Caller, lmdeploy: ScriptedLMDeploy):
    lmdeploy.slow = True
    pending = asyncio.create_task(send(caller, stream=True))
    await wait_until(lambda: lmdeploy.bodies != [])
    await asyncio.sleep(0.05)
    pending.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await pending
    await asyncio.wait_for(lmdeploy.stopped.wait(), GENEROUS_S)
    assert "/abort_request" not in lmdeploy.paths


# Errors that the proxy sends with status 200; the status and a part of the message that callers get.
PROXY_ERRORS: list[tuple[Any, int, str]] = [
    ({"error_code": 10400, "text": "The request model name does not exist in the model list."}, 404, "does not exist"),
    ({"error_code": 10401, "text": "The service is unavailable now."}, 503, "unavailable"),
    ({"error_code": 10402, "text": "Failed to get response after a period of time"}, 504, "period of time"),
    ({"object": "error", "message": "The top_p must be in (0, 1].", "type": "t", "code": 400, "param": None}, 400, "top_p"),
    ({"object": "error", "message": "asleep", "type": "server_error", "code": 503, "param": None}, 503, "asleep"),
    ({"detail": [{"loc": ["body", "n"], "msg": "not an integer", "type": "t"}]}, 422, "not an integer"),
]


@each_stream_mode
@pytest.mark.parametrize(
    ("error_body", "status", "message"), PROXY_ERRORS, ids=[f"{status} {message}" for _, status, message in PROXY_ERRORS]
)
async def test_proxy_error_with_status_200_gets_its_true_status(
    caller: Caller, proxy: ScriptedProxy, stream: bool, error_body: Any, status: int, message: str
):
    proxy.error_body = error_body
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError), match=message) as raised:
        await send(caller, stream, "lmdeploy-proxy")
    assert raised.value.status_code == status


@each_stream_mode
async def test_proxy_unknown_model_error_inside_a_json_string_is_404(client: httpx2.AsyncClient, proxy: ScriptedProxy, stream: bool):
    proxy.error_body, proxy.as_json_string = PROXY_ERRORS[0][0], True
    answer = await client.post("/v1/chat/completions", json={"model": "lmdeploy-proxy", "messages": HI, "stream": stream})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


async def test_bare_proxy_error_line_midstream_is_reported_as_an_error(caller: Caller, proxy: ScriptedProxy):
    proxy.error_body, proxy.stream_begun = PROXY_ERRORS[2][0], True
    with pytest.raises((openai.APIError, anthropic.APIError, AssertionError), match="period of time"):
        await send(caller, True, "lmdeploy-proxy")


@each_stream_mode
@pytest.mark.parametrize("error_body", [each[0] for each in PROXY_ERRORS[:3]], ids=["missing", "unavailable", "timeout"])
async def test_proxy_error_falls_back_to_the_next_model(
    client: httpx2.AsyncClient, lmdeploy: ScriptedLMDeploy, proxy: ScriptedProxy, stream: bool, error_body: Any
):
    proxy.error_body = error_body
    answer = await client.post("/v1/chat/completions", json={"model": "lmdeploy-backed", "messages": HI, "stream": stream})
    assert answer.status_code == 200 and len(lmdeploy.bodies) == 1
