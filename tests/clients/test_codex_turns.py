"""Turns of the Codex CLI, replayed: each kind of host answers them on the first request, and OpenAI gets them as they are."""

import json
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest

from providers.canonical.chat import Part, Text, ToolCall
from tests.clients.codex_requests import EXEC_GRAMMAR, HEADERS, SEARCH, lite_body, message, plain_body
from tests.conformance.situations import Situation
from tests.support.processes.service import Service
from tests.support.scripted_dialects import respond_with
from tests.support.scripted_engine import ScriptedEngine

# Models whose host has neither items with tools nor tools for free text.
TRANSLATED = ["codex-claude", "codex-gemini", "codex-bedrock", "codex-vllm", "codex-vllm-responses", "codex-deepseek", "codex-llamacpp"]
FUNCTIONS = {
    *("functions__exec", "functions__wait", "functions__request_user_input", "clock__current_time"),
    *("collaboration__spawn_agent", "collaboration__list_agents"),
}
SOURCE = 'console.log("1 + 1 =\\n", 1 + 1) // ä 🚀'
DONE = Situation(name="done", parts=(Text("It is 2."),))


@pytest.fixture(scope="module", autouse=True)
def models(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one = f"http://127.0.0.1:{engines[0].port}"
    service.apply(f"""
        [providers]
        codex-claude = {{ adapter = "anthropic", base_url = "{one}" }}
        codex-gemini = {{ adapter = "gemini", base_url = "{one}" }}
        codex-bedrock = {{ adapter = "bedrock", base_url = "{one}" }}
        codex-vllm = {{ adapter = "vllm", base_url = "{one}", options = {{ version = "0.32.0", dialects = ["openai_chat"] }} }}
        codex-vllm-responses = {{ adapter = "vllm", base_url = "{one}", options = {{ version = "0.32.0" }} }}
        codex-deepseek = {{ adapter = "deepseek", base_url = "{one}", options = {{ dialects = ["openai_chat"] }} }}
        codex-llamacpp = {{ adapter = "llamacpp", base_url = "{one}" }}
        codex-openai = {{ adapter = "azure", base_url = "{one}" }}
        [models]
        codex-claude = {{ targets = [{{ provider = "codex-claude", model = "claude-opus-5-5" }}] }}
        codex-gemini = {{ targets = [{{ provider = "codex-gemini", model = "gemini-4-argon" }}] }}
        codex-bedrock = {{ targets = [{{ provider = "codex-bedrock", model = "us.amazon.nova-2-lite-v1:0" }}] }}
        codex-vllm = {{ targets = [{{ provider = "codex-vllm", model = "qwen" }}] }}
        codex-vllm-responses = {{ targets = [{{ provider = "codex-vllm-responses", model = "qwen" }}] }}
        codex-deepseek = {{ targets = [{{ provider = "codex-deepseek", model = "deepseek-v4-pro" }}] }}
        codex-llamacpp = {{ targets = [{{ provider = "codex-llamacpp", model = "qwen" }}] }}
        codex-openai = {{ targets = [{{ provider = "codex-openai", model = "gpt-6.1-sol" }}] }}
    """)


async def send(client: httpx2.AsyncClient, body: dict[str, Any]) -> tuple[httpx2.Response, list[dict[str, Any]]]:
    """The response, and the items that Codex takes from its events."""
    answer = await client.post("/v1/responses", json=body, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert events[0]["type"] == "response.created" and events[-1]["type"] == "response.completed", events[-1]
    assert events[-1]["response"]["usage"]["total_tokens"] > 0
    return answer, [event["item"] for event in events if event["type"] == "response.output_item.done"]


def sent_functions(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The functions that an engine received, by name: whatever its API, each is an object with a name."""
    found: dict[str, dict[str, Any]] = {}

    def look(value: Any) -> None:
        for each in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():  # pyright: ignore
            look(each)
        if isinstance(value, dict) and isinstance(value.get("name"), str) and "description" in value:  # pyright: ignore
            found[value["name"]] = value

    look(body.get("tools") or body["toolConfig"])
    return found


def bodies(engine: ScriptedEngine) -> list[dict[str, Any]]:
    return [request.body for request in engine.requests if request.body]


def call_of(*parts: Part) -> Situation:
    return Situation(name="calls", parts=parts, finish="tool_calls")


@pytest.mark.parametrize("model", TRANSLATED)
async def test_turns_with_tools_in_an_item_of_the_input_work(client: httpx2.AsyncClient, engine: ScriptedEngine, model: str):
    arguments = json.dumps({"input": SOURCE})
    engine.script = respond_with(call_of(Text("Let me see."), ToolCall("call_1", "functions__exec", arguments)), DONE)
    question = message("user", "What is 1 + 1?")
    answer, items = await send(client, lite_body(model, question))
    call = next(item for item in items if item["type"] == "custom_tool_call")
    assert (call["namespace"], call["name"], call["input"]) == ("functions", "exec", SOURCE)
    assert "tools (custom)" in answer.headers["x-narthex-emulated"]
    functions = sent_functions(bodies(engine)[0])
    assert set(functions) == FUNCTIONS
    assert EXEC_GRAMMAR in functions["functions__exec"]["description"]
    result = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "2"}
    _, items = await send(client, lite_body(model, question, *items, result))
    assert items[-1]["content"][0]["text"] == "It is 2."
    second = json.dumps(bodies(engine)[1], ensure_ascii=False)
    assert "functions__exec" in second and "1 + 1 =" in second and "additional_tools" not in second


@pytest.mark.parametrize("model", TRANSLATED)
async def test_search_that_the_caller_executes_is_a_function_elsewhere(client: httpx2.AsyncClient, engine: ScriptedEngine, model: str):
    engine.script = respond_with(
        call_of(ToolCall("call_1", "tool_search", '{"query": "mail"}')), call_of(ToolCall("call_2", "mail__send", '{"to": "Ada"}'))
    )
    question = message("user", "Write to Ada.")
    answer, items = await send(client, plain_body(model, question))
    search = items[-1]
    assert (search["type"], search["execution"], search["arguments"]) == ("tool_search_call", "client", {"query": "mail"})
    assert sent_functions(bodies(engine)[0])["tool_search"]["description"] == SEARCH["description"]
    assert "tools[3]" in answer.headers["x-narthex-dropped"]  # the web search
    mail = {"type": "namespace", "name": "mail", "description": "Mail.", "tools": [{**plain_body("")["tools"][0], "name": "send"}]}
    found = {"type": "tool_search_output", "call_id": search["call_id"], "execution": "client", "status": "completed", "tools": [mail]}
    _, items = await send(client, plain_body(model, question, *items, found))
    assert (items[-1]["namespace"], items[-1]["name"]) == ("mail", "send")
    assert {"mail__send", "multi_agent_v1__spawn_agent"} <= set(sent_functions(bodies(engine)[1]))


@pytest.mark.parametrize("model", ["codex-vllm", "codex-claude"])
async def test_last_configuration_update_is_in_force(client: httpx2.AsyncClient, engine: ScriptedEngine, model: str):
    engine.script = respond_with(DONE)
    updates = [{"type": "configuration_update", "reasoning": {"effort": effort}} for effort in ("low", "high")]
    await send(client, lite_body(model, updates[0], message("user", "Hello."), updates[1], message("user", "So?")))
    (body,) = bodies(engine)
    effort = body["reasoning_effort"] if model == "codex-vllm" else body["output_config"]["effort"]
    assert effort == "high"


async def test_text_format_of_an_update_is_refused_where_it_cannot_be_checked(client: httpx2.AsyncClient):
    format = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    update = {"type": "configuration_update", "text": {"format": format}}
    answer = await client.post("/v1/responses", json=lite_body("codex-vllm", update, message("user", "Hello.")))
    assert (answer.status_code, answer.json()["error"]["param"]) == (422, "input[4].text")


async def test_openai_gets_items_and_headers_as_they_came(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = respond_with(DONE)
    update = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    body = lite_body("codex-openai", update, message("user", "Hello."))
    await send(client, body)
    (received,) = [request for request in engine.requests if request.body]
    assert received.body["input"] == body["input"] and "tools" not in received.body
    assert received.body["reasoning"] == body["reasoning"] and received.body["client_metadata"] == body["client_metadata"]
    assert received.headers["x-openai-internal-codex-responses-lite"] == "true"
    assert received.headers["x-codex-beta-features"] == "remote_compaction_v2"


async def test_headers_of_codex_reach_no_other_host(client: httpx2.AsyncClient, engine: ScriptedEngine):
    engine.script = respond_with(DONE)
    await send(client, lite_body("codex-vllm-responses", message("user", "Hello.")))
    (received,) = [request for request in engine.requests if request.body]
    assert not any("codex" in name for name in received.headers)


async def test_complete_response_is_held_to_the_grammar_of_a_tool(client: httpx2.AsyncClient, engine: ScriptedEngine):
    sum_tool = {"type": "custom", "name": "sum", "format": {"type": "grammar", "syntax": "regex", "definition": r"\d+ \+ \d+"}}
    body = {"model": "codex-claude", "input": "Add.", "tools": [sum_tool], "max_output_tokens": 100}
    calls: Sequence[Situation] = [call_of(ToolCall("call_1", "sum", json.dumps({"input": text}))) for text in ("1 + 2", "one and two")]
    engine.script = respond_with(*calls)
    good, bad = [await client.post("/v1/responses", json=body) for _ in calls]
    assert good.status_code == 200 and good.json()["output"][0]["input"] == "1 + 2"
    assert bad.status_code == 502 and "leaves the constraint" in bad.json()["error"]["message"]


@pytest.mark.parametrize(
    "tools, param", [([{"type": "function"}], "input[0].tools[0].name"), ([1], "input[0].tools[0]"), (None, "input[0].tools")]
)
async def test_malformed_tools_in_an_item_are_refused_by_their_path(client: httpx2.AsyncClient, tools: Any, param: str):
    item = {"type": "additional_tools", "role": "developer", "tools": tools}
    answer = await client.post("/v1/responses", json={"model": "codex-vllm", "input": [item]})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("model", TRANSLATED)
async def test_session_behind_a_provider_called_openai_survives_its_compaction(
    client: httpx2.AsyncClient, engine: ScriptedEngine, model: str
):
    """Codex then sends its tools, its instructions, the user's messages, the compaction and the new message."""
    summary = "The planted fact: the port is 4711."
    engine.script = respond_with(Situation(name="summary", parts=(Text(summary),)), DONE)
    question, work = message("user", "Which port?"), message("assistant", "It is 4711.")
    _, items = await send(client, lite_body(model, question, work, {"type": "compaction_trigger"}))
    assert [item["type"] for item in items] == ["compaction"]
    _, answer = await send(client, lite_body(model, question, *items, message("user", "And now?")))
    assert answer[-1]["content"][0]["text"] == "It is 2."
    first, second = bodies(engine)
    assert "It is 4711." in json.dumps(first)
    if model != "codex-bedrock":  # Converse cannot be told to call none of its tools
        assert set(sent_functions(first)) == FUNCTIONS
    assert summary in json.dumps(second) and "nxs1." not in json.dumps(second)
