"""A host's 400 that names a rule: the request is adapted, tried once more and reported; then all workers adapt to it at once."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from providers.canonical.chat import Text, ToolCall
from tests.conformance.situations import Situation
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_dialects import respond_with
from tests.support.scripted_engine import ReceivedRequest, Script, ScriptedEngine

HI: Any = [{"role": "user", "content": "Hi"}]
FUNCTION: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
ANSWER = Situation(name="answer", parts=(Text("Hello."),))
DEPRECATED = "`temperature` is deprecated for this model."
BOUND = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. See our docs."
BETAS = {"anthropic-beta": "other-2025-01-01"}
SIGNED: Any = {"type": "thinking", "thinking": "", "signature": "signature-of-the-first-block"}


@pytest.fixture(scope="module", autouse=True)
def models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one = f"http://127.0.0.1:{engines[0].port}"
    service.apply(f"""
        [providers]
        strict-claude = {{ adapter = "anthropic", base_url = "{one}" }}
        own-claude = {{ adapter = "anthropic", base_url = "{one}", credential = "header:x-own-key" }}
        strict-gpt = {{ adapter = "openai", base_url = "{one}", options = {{ dialects = ["openai_chat", "openai_responses"] }} }}
        [models]
        strict-shared = {{ targets = [{{ provider = "strict-claude", model = "shared" }}] }}
        strict-twice = {{ targets = [{{ provider = "strict-claude", model = "twice" }}] }}
        strict-bound = {{ targets = [{{ provider = "strict-claude", model = "bound" }}] }}
        strict-unbindable = {{ targets = [{{ provider = "strict-claude", model = "unbindable" }}] }}
        strict-forced = {{ targets = [{{ provider = "strict-claude", model = "forced" }}] }}
        strict-schemas = {{ targets = [{{ provider = "strict-claude", model = "schemas" }}] }}
        strict-schema-calls = {{ targets = [{{ provider = "strict-claude", model = "calls" }}] }}
        strict-own = {{ targets = [{{ provider = "own-claude", model = "own" }}] }}
        strict-bias = {{ targets = [{{ provider = "strict-gpt", model = "bias" }}] }}
        strict-tools = {{ targets = [{{ provider = "strict-gpt", model = "tools" }}] }}
    """)


def refuse(is_refused: Callable[[ReceivedRequest], bool], message: str, *, answer: Situation = ANSWER, **error: Any) -> Script:
    body = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message, **error}}).encode()

    async def script(request: ReceivedRequest) -> None:
        if is_refused(request):
            return await request.respond(400, body)
        await respond_with(answer)(request)

    return script


def messages_body(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "max_tokens": 50, "messages": HI, **fields}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_refused_field_is_left_out_reported_and_then_known_to_all_workers(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine, streamed: bool
):
    model = "strict-shared"
    engine.script = refuse(lambda request: "temperature" in request.body, DEPRECATED)
    first = await client.post("/v1/messages", json=messages_body(model, temperature=0.2, **({"stream": True} if streamed else {})))
    assert first.status_code == 200 and "o." in first.text, first.text
    assert first.headers["x-narthex-dropped"] == "temperature"
    row = await service.wait_for_record(first.headers["x-narthex-inference-id"])
    assert row["dropped"] == ["temperature"]
    if not streamed:  # the first request of all
        assert [(each["status"], each["error"]) for each in row["attempts"]] == [(400, "UpstreamRejected"), (200, None)]
        assert [set(request.body) for request in engine.requests] == [
            {"model", "max_tokens", "messages", "temperature"},
            {"model", "max_tokens", "messages"},
        ]

    async def all_know() -> bool:
        """Twenty connections in a row, which the workers share, without a 400."""
        engine.requests.clear()
        for _ in range(20):
            async with service.client() as another:
                answer = await another.post("/v1/chat/completions", json={"model": model, "messages": HI, "temperature": 0.5})
                assert answer.status_code == 200 and answer.headers["x-narthex-dropped"] == "temperature"
        return len(engine.requests) == 20

    await wait_until(all_know, 30)
    listed = json.loads(service.run("engines", "rules", "--json").stdout)["data"]
    (found,) = [each for each in listed if each["model"] == "shared"]
    assert (found["provider"], found["rule"], found["field"]) == ("strict-claude", "refused_field", "temperature")
    assert "temperature" in service.run("engines", "rules").stdout


async def test_caller_who_allows_no_loss_gets_a_refusal_by_its_own_name(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = refuse(
        lambda request: "logit_bias" in request.body,
        "Unsupported parameter: 'logit_bias' is not supported with this model.",
        param="logit_bias",
        code="unsupported_parameter",
    )
    body = {"model": "strict-bias", "messages": HI, "logit_bias": {"5": 1}}
    refused = await client.post("/v1/chat/completions", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "logit_bias"), refused.text
    assert "x-narthex-drop: logit_bias" in refused.json()["error"]["message"] and len(engine.requests) == 1
    allowed = await client.post("/v1/chat/completions", json=body, headers={"x-narthex-drop": "logit_bias"})
    assert allowed.status_code == 200 and allowed.headers["x-narthex-dropped"] == "logit_bias"


async def test_request_is_adapted_once(client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def script(request: ReceivedRequest) -> None:
        field = next((each for each in ("temperature", "top_p", "top_k") if each in request.body), None)
        if field is None:
            return await respond_with(ANSWER)(request)
        await request.respond(400, json.dumps({"error": {"message": f"`{field}` is deprecated for this model."}}).encode())

    engine.script = script
    body = messages_body("strict-twice", temperature=0.2, top_p=0.5)
    refused = await client.post("/v1/messages", json=body)
    assert refused.status_code == 400 and "`top_p` is deprecated" in refused.text and len(engine.requests) == 2
    # What the second refusal taught is known, too.
    again = await client.post("/v1/messages", json=body)
    assert again.status_code == 200 and set(again.headers["x-narthex-dropped"].split(", ")) == {"temperature", "top_p"}


async def test_refusal_to_which_nothing_can_be_adapted_is_the_hosts_own(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = refuse(lambda request: True, DEPRECATED)
    refused = await client.post("/v1/messages", json=messages_body("strict-twice"))
    assert refused.status_code == 400 and DEPRECATED in refused.text and len(engine.requests) == 1


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_chat_with_tools_goes_to_responses_where_the_host_says_so(client: httpx2.AsyncClient, engine: ScriptedEngine, streamed: bool):
    engine.script = refuse(
        lambda request: request.path.endswith("/chat/completions") and "tools" in request.body,
        "Function tools with reasoning_effort are not supported for tools in /v1/chat/completions. To use function tools, use"
        " /v1/responses or set reasoning_effort to 'none'.",
        param="reasoning_effort",
    )
    body = {"model": "strict-tools", "messages": HI, "tools": [FUNCTION], "stream": streamed}
    answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200 and "o." in answer.text, answer.text
    assert engine.requests[-1].path.endswith("/responses")
    without = await client.post("/v1/chat/completions", json={"model": "strict-tools", "messages": HI})
    assert without.status_code == 200 and engine.requests[-1].path.endswith("/chat/completions")


async def test_tool_that_cannot_be_forced_is_demanded_in_the_prompt(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = refuse(
        lambda request: request.body.get("tool_choice", {}).get("type") in ("any", "tool"),
        "Thinking may not be enabled when tool_choice forces tool use.",
        answer=Situation(name="call", parts=(ToolCall("toolu_1", "f", "{}"),), finish="tool_calls"),
    )
    tool: Any = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
    answer = await client.post("/v1/messages", json=messages_body("strict-forced", tools=[tool], tool_choice={"type": "any"}))
    assert answer.status_code == 200 and answer.json()["content"][0]["name"] == "f", answer.text
    assert "x-narthex-dropped" not in answer.headers  # the gateway has seen to it that there is a call
    assert len(engine.requests) == 2 and "tool_choice" not in engine.requests[-1].body
    assert 'a call of "f"' in engine.requests[-1].body["system"]


CLOSED: Any = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def demands_schema(request: ReceivedRequest) -> bool:
    return "format" in request.body.get("output_config", {}) or any("strict" in tool for tool in request.body.get("tools", []))


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_schema_that_a_host_takes_no_longer_stands_in_the_prompt_and_is_checked(
    client: httpx2.AsyncClient, engine: ScriptedEngine, streamed: bool
):
    engine.script = refuse(
        demands_schema,
        "tool_search, structured_outputs not supported in your workspace.",
        answer=Situation(name="json", parts=(Text('{"a": "b"}'),)),
    )
    form = {"type": "json_schema", "schema": CLOSED}
    answer = await client.post("/v1/messages", json=messages_body("strict-schemas", output_config={"format": form}, stream=streamed))
    assert answer.status_code == 200 and answer.headers["x-narthex-guided"] == "validated", answer.text
    assert "must be valid against this JSON schema" in json.dumps(engine.requests[-1].body["system"])
    assert not demands_schema(engine.requests[-1])
    named = {"name": "x", "schema": CLOSED, "strict": True}
    chat = {"model": "strict-schemas", "messages": HI, "response_format": {"type": "json_schema", "json_schema": named}}
    answer = await client.post("/v1/chat/completions", json={**chat, "stream": streamed})
    assert answer.status_code == 200 and answer.headers["x-narthex-guided"] == "validated", answer.text
    engine.script = refuse(demands_schema, "structured_outputs not supported in your workspace.")
    refused = await client.post("/v1/chat/completions", json=chat)
    assert refused.status_code != 200, "an answer that breaks the schema is none"


async def test_calls_of_strict_tools_are_checked_where_a_host_takes_no_schemas(client: httpx2.AsyncClient, engine: ScriptedEngine):
    call = Situation(name="call", parts=(ToolCall("toolu_1", "f", '{"a":"b"}'),), finish="tool_calls")
    engine.script = refuse(demands_schema, "structured_outputs not supported in your workspace.", answer=call)
    tool: Any = {"name": "f", "input_schema": CLOSED, "strict": True}
    answer = await client.post("/v1/messages", json=messages_body("strict-schema-calls", tools=[tool]))
    assert answer.status_code == 200 and answer.json()["content"][0]["input"] == {"a": "b"}, answer.text
    assert [demands_schema(request) for request in engine.requests] == [True, False] and "x-narthex-dropped" not in answer.headers


async def test_refusal_of_a_callers_own_account_teaches_nobody_else(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = refuse(lambda request: "temperature" in request.body, DEPRECATED)
    for count in (2, 4):  # the second request is refused and adapted like the first one
        answer = await client.post("/v1/messages", json=messages_body("strict-own", temperature=0.2), headers={"x-own-key": "sk-mine"})
        assert answer.status_code == 200 and len(engine.requests) == count, answer.text
    listed = json.loads(service.run("engines", "rules", "--json").stdout)["data"]
    assert not [each for each in listed if each["model"] == "own"]


def bound_turns(count: int) -> Any:
    return [*HI, {"role": "assistant", "content": [SIGNED, {"type": "text", "text": "x"}]}, *(HI * count)]


async def test_blocks_bound_to_another_conversation_are_dropped_by_the_host(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine
):
    def is_refused(request: ReceivedRequest) -> bool:
        binding = request.body.get("thinking", {}).get("block_binding")
        controls = "thinking-binding-controls-2026-08-01" in request.headers.get("anthropic-beta", "")
        return not (binding == {"prefix_mismatch_behavior": "drop_block"} and controls)

    engine.script = refuse(is_refused, BOUND)
    body = messages_body("strict-bound", thinking={"type": "adaptive"})
    counts: list[int] = []
    for turns in range(1, 13):
        engine.requests.clear()
        answer = await client.post("/v1/messages", json={**body, "messages": bound_turns(turns)}, headers=BETAS)
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-narthex-dropped"] == "messages[1].content[0]"
        assert engine.requests[-1].body["messages"] == bound_turns(turns)  # the blocks go as they came
        assert engine.requests[-1].headers["anthropic-beta"] == "other-2025-01-01,thinking-binding-controls-2026-08-01"
        counts.append(len(engine.requests))
    # Each worker is told once at most, in which the conversation then costs no further request.
    assert counts[0] == 2 and sum(counts) <= 12 + 2


async def test_blocks_are_left_out_where_the_host_does_not_drop_them(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = refuse(lambda request: b'"signature"' in request.raw, BOUND)
    body = messages_body("strict-unbindable", thinking={"type": "adaptive"})
    answer = await client.post("/v1/messages", json={**body, "messages": bound_turns(1)})
    assert answer.status_code == 200 and answer.headers["x-narthex-dropped"] == "messages[1].content[0]", answer.text
    assert len(engine.requests) == 3 and b"block_binding" not in engine.requests[-1].raw and b"signature" not in engine.requests[-1].raw
