"""vLLM, current and before 0.12, behind the gateway, called through the SDKs of three APIs: fields it would ignore are not sent."""

from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from tests.support.engines.vllm import ScriptedVLLM
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.sdk_callers import HI, Caller, SdkResponse

VERSIONS = {"now": "0.32.0", "old": "0.11.2"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
VALID = '{"a": 1}'


@pytest.fixture(scope="module")
async def running(service: Service) -> AsyncGenerator[dict[str, ScriptedVLLM]]:
    """Engines that each report their version.

    The models are those of VERSIONS, and vllm-backed (the first, falling back to the second).
    """
    engines = {name: ScriptedVLLM(version) for name, version in VERSIONS.items()}
    lines: list[str] = []
    for name, engine in engines.items():
        await engine.server.start()
        lines += [
            f'[providers.vllm-{name}]\nadapter = "vllm"\nbase_url = "http://127.0.0.1:{engine.server.port}"',
            f'[models.{name}]\ntargets = [{{ provider = "vllm-{name}", model = "engine-model" }}]',
        ]
    lines.append('[models.vllm-backed]\ntargets = [{ provider = "vllm-now", model = "engine-model" }]\nfallbacks = ["old"]')
    service.apply("\n".join(lines))
    async with service.client() as client:
        await _wait_until_version_known(client, engines["now"])
    yield engines
    for engine in engines.values():
        await engine.server.stop()


async def _wait_until_version_known(client: httpx2.AsyncClient, engine: ScriptedVLLM) -> None:
    """Waits until both workers have probed the engine: from then on a regex is reported as enforced."""
    engine.text = "a"

    async def is_known() -> bool:
        for _ in range(6):
            answer = await client.post("/v1/chat/completions", json={"model": "now", "messages": HI, "guided_regex": "a"})
            if answer.headers.get("x-narthex-guided") != "enforced":
                return False
        return True

    await wait_until(is_known)


@pytest.fixture
def engines(running: dict[str, ScriptedVLLM]) -> dict[str, ScriptedVLLM]:
    for engine in running.values():
        engine.reset()
    return running


async def send(caller: Caller, stream: bool, model: str, **more: Any) -> SdkResponse:
    return await (caller.stream if stream else caller.create)(model, **more)


EACH_STREAM_MODE = pytest.mark.parametrize("stream", [False, True], ids=["unstreamed", "streamed"])
EACH_VERSION = pytest.mark.parametrize("model", VERSIONS)


@EACH_STREAM_MODE
@EACH_VERSION
async def test_response_carries_text_and_reasoning(caller: Caller, engines: dict[str, ScriptedVLLM], model: str, stream: bool):
    engines[model].reasoning = "Greet them."
    response = await send(caller, stream, model)
    assert (response.text, response.reasoning, response.finish) == ("Hello.", "Greet them.", "stop")
    assert engines[model].ignored_fields == set()


@EACH_STREAM_MODE
@EACH_VERSION
async def test_json_schema_of_each_api_is_enforced(caller: Caller, engines: dict[str, ScriptedVLLM], model: str, stream: bool):
    engine = engines[model]
    engine.text = VALID
    response = await send(caller, stream, model, **caller.schema_fields(SCHEMA))
    assert (response.text, response.guided) == (VALID, "enforced")
    assert engine.applied_constraints[0] is not None
    assert engine.ignored_fields == set()


# Fields of callers, and the constraint that a vLLM of each version gets.
CONSTRAINT_FIELDS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "guided_regex": ({"guided_regex": "a+"}, {"regex": "a+"}, {"guided_regex": "a+"}),
    "guided_choice": ({"guided_choice": ["a", "b"]}, {"choice": ["a", "b"]}, {"guided_choice": ["a", "b"]}),
    "guided_grammar": ({"guided_grammar": 'root ::= "a"'}, {"grammar": 'root ::= "a"'}, {"guided_grammar": 'root ::= "a"'}),
    "structured_outputs": ({"structured_outputs": {"regex": "a+"}}, {"regex": "a+"}, {"guided_regex": "a+"}),
}


@pytest.mark.parametrize("field", CONSTRAINT_FIELDS)
async def test_engine_constraint_fields_are_translated_for_each_vllm_version(caller: Caller, engines: dict[str, ScriptedVLLM], field: str):
    fields, *expected = CONSTRAINT_FIELDS[field]
    for (model, engine), constraint in zip(engines.items(), expected, strict=True):
        engine.text = "a"
        response = await send(caller, False, model, extra_body=fields)
        assert (response.guided, engine.applied_constraints, engine.ignored_fields) == ("enforced", [constraint], set())


@EACH_VERSION
async def test_schema_beside_tools_is_demanded_in_the_prompt_unless_dropped(caller: Caller, engines: dict[str, ScriptedVLLM], model: str):
    fields = {**caller.schema_fields(SCHEMA), "tools": list(caller.tools)}
    engines[model].text = VALID
    response = await send(caller, False, model, **fields)
    assert (response.text, response.dropped, response.guided) == (VALID, None, "validated")
    body = engines[model].requests[-1].body
    assert "JSON schema" in str(body) and body["tools"]
    assert engines[model].applied_constraints == [None]
    response = await send(caller, False, model, **fields, extra_headers={"x-narthex-drop": "tools"})
    assert (response.text, response.dropped, response.guided) == (VALID, "tools", "enforced")
    assert "tools" not in engines[model].requests[-1].body


async def test_tool_calls_are_returned_when_the_response_format_is_dropped(client: httpx2.AsyncClient, engines: dict[str, ScriptedVLLM]):
    engines["now"].calls_tool = True
    tools = [{"type": "function", "function": {"name": "book", "parameters": SCHEMA}}]
    body = {"model": "now", "messages": HI, "tools": tools, "response_format": {"type": "json_object"}}
    answer = await client.post("/v1/chat/completions", json=body, headers={"x-narthex-drop": "response_format"})
    assert answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "book"
    assert (answer.headers["x-narthex-dropped"], engines["now"].applied_constraints) == ("response_format", [None])
    assert "x-narthex-guided" not in answer.headers


@pytest.mark.parametrize("field", ["typical_p", "best_of", "lora_path", "guided_whitespace_pattern"])
async def test_unsupported_field_is_refused_by_name_in_each_api(caller: Caller, engines: dict[str, ScriptedVLLM], field: str):
    values: dict[str, Any] = {"typical_p": 0.5, "best_of": 3, "lora_path": "x", "guided_whitespace_pattern": "[ ]"}
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as refused:
        await send(caller, False, "now", extra_body={field: values[field]})
    assert (refused.value.status_code, engines["now"].requests) == (422, [])
    assert f"`{field}`" in refused.value.message


async def test_hint_fields_are_dropped_and_reported(client: httpx2.AsyncClient, engines: dict[str, ScriptedVLLM]):
    body = {"model": "now", "messages": HI, "user": "u", "service_tier": "auto", "prediction": {"type": "content", "content": "x"}}
    answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200
    assert {"user", "service_tier", "prediction"} == set(answer.headers["x-narthex-dropped"].replace(" ", "").split(","))
    assert engines["now"].ignored_fields == set()


async def test_document_part_is_refused_without_an_upstream_call(client: httpx2.AsyncClient, engines: dict[str, ScriptedVLLM]):
    parts = [
        {"type": "text", "text": "Sum up."},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a"}},
    ]
    refused = await client.post("/v1/chat/completions", json={"model": "now", "messages": [{"role": "user", "content": parts}]})
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "messages[0].content[1]")
    assert engines["now"].requests == []


async def test_prior_reasoning_is_sent_back_under_the_engines_field_name(client: httpx2.AsyncClient, engines: dict[str, ScriptedVLLM]):
    messages = [*HI, {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}, *HI]
    assert (await client.post("/v1/chat/completions", json={"model": "now", "messages": messages})).status_code == 200
    assert engines["now"].requests[0].body["messages"][1] == {"role": "assistant", "content": "Yes.", "reasoning": "Hm."}


async def test_full_queue_is_503_and_falls_back_to_the_next_model(client: httpx2.AsyncClient, engines: dict[str, ScriptedVLLM]):
    engines["now"].queue_full = True
    alone = await client.post("/v1/chat/completions", json={"model": "now", "messages": HI})
    assert (alone.status_code, alone.json()["error"]["type"]) == (503, "service_unavailable_error")
    assert (await client.post("/v1/chat/completions", json={"model": "vllm-backed", "messages": HI})).status_code == 200
    assert len(engines["old"].requests) == 1
