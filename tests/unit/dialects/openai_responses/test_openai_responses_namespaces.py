"""Tools as the Codex CLI sends them: functions in namespaces, and a web search that is offered beside them."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from openai.types.responses import Response

from providers.canonical.chat import ChatResponse, Choice, HostTool, Tool, ToolCall
from providers.canonical.errors import InvalidRequest, Unsupported
from providers.canonical.events import response_events
from providers.canonical.raw_json import Body
from providers.dialect import ChatDialect, ResponseMeta
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.bedrock_converse import BedrockConverse
from providers.dialects.cohere_chat import CohereChat
from providers.dialects.gemini import Gemini
from providers.dialects.ollama_chat import OllamaChat
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_responses import OpenAIResponses
from providers.drop_policy import DropPolicy
from tests.support.strategies.chat_strategies import META

DIALECT = OpenAIResponses()
SHELL: dict[str, Any] = {"type": "function", "name": "shell", "parameters": {"type": "object"}, "strict": False}
SEARCH: dict[str, Any] = {"type": "web_search", "external_web_access": False}
AGENTS: dict[str, Any] = {
    "type": "namespace",
    "name": "agents",
    "description": "Sub-agents.",
    "tools": [{**SHELL, "name": "spawn", "description": "Starts one."}, {**SHELL, "name": "close"}, {"type": "custom", "name": "tell"}],
}
TOOLS = [SHELL, AGENTS, SEARCH]
CALL = ChatResponse((Choice((ToolCall("call_1", "agents__close", "{}"),), "tool_calls"),), "m")


def body(**fields: Any) -> Body:
    return Body.read(json.dumps({"model": "m", "input": "Hi", "tools": TOOLS, **fields}).encode())


def names(tools: tuple[Tool | HostTool, ...]) -> list[str]:
    return [tool.name if isinstance(tool, Tool) else tool.kind for tool in tools]


def drop_policy() -> DropPolicy:
    return DropPolicy(lambda _: False, DIALECT.field_names, "a target")


def meta_of(request: Body) -> ResponseMeta:
    return replace(META, request_body=request)


def test_functions_of_a_namespace_have_qualified_names_and_other_tools_keep_their_index():
    tools = DIALECT.read_request(body()).tools
    assert names(tools) == ["shell", "agents__spawn", "web_search", "agents__close", "agents__tell"]
    spawn, tell = tools[1], tools[4]
    assert isinstance(spawn, Tool) and spawn.description == "agents: Sub-agents.\n\nStarts one."
    assert isinstance(tell, Tool) and tell.custom


@pytest.mark.parametrize("tools", [[], None])
def test_namespace_without_functions_is_a_tool_of_the_host(tools: list[Any] | None):
    (tool,) = DIALECT.read_request(body(tools=[{**AGENTS, "tools": tools}])).tools
    assert isinstance(tool, HostTool) and tool.kind == "namespace"


def test_malformed_namespace_is_refused():
    with pytest.raises(InvalidRequest, match="tools"):
        DIALECT.parse_request(body(tools=[{**AGENTS, "tools": "spawn"}]).write())


def test_call_in_a_namespace_names_both_parts_in_a_response_and_in_its_stream():
    meta = meta_of(body())
    item = json.loads(DIALECT.write_response(CALL, meta))["output"][0]
    assert (item["namespace"], item["name"]) == ("agents", "close")
    assert Response.model_validate_json(DIALECT.write_response(CALL, meta)).output[0].model_dump()["namespace"] == "agents"
    writer = DIALECT.stream_writer(meta)
    stream = b"".join([writer.feed(event) for event in response_events(CALL)]) + writer.finish()
    items = [json.loads(line[6:])["item"] for line in stream.splitlines() if line.startswith(b"data: {") and b'"item":' in line]
    assert len(items) == 2 and all((item["namespace"], item["name"]) == ("agents", "close") for item in items)


def test_call_outside_a_namespace_has_none():
    response = ChatResponse((Choice((ToolCall("call_1", "shell", "{}"),), "tool_calls"),), "m")
    assert "namespace" not in json.loads(DIALECT.write_response(response, meta_of(body())))["output"][0]


def test_call_in_a_namespace_returns_by_its_qualified_name():
    call = {"type": "function_call", "call_id": "call_1", "namespace": "agents", "name": "close", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "call_1", "output": "Closed."}
    chat = DIALECT.read_request(body(input=[call, result]))
    assert chat.messages[0].parts == (ToolCall("call_1", "agents__close", "{}"),)


TARGETS = [OpenAIChat(), AnthropicMessages(), Gemini(), BedrockConverse(), OllamaChat(), CohereChat()]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_offered_web_search_is_left_out_and_reported_where_the_host_has_none(target: ChatDialect):
    chat = replace(DIALECT.read_request(body(tools=[SHELL, SEARCH])), max_tokens=100)
    policy = drop_policy()
    written = target.write_request(chat, policy)
    assert b"shell" in written.write() and b"web_search" not in written.write() and policy.dropped == ["tools[1]"]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize(
    "fields",
    [{"tools": [SEARCH]}, {"tools": [SHELL, SEARCH], "tool_choice": {"type": "web_search"}}, {"tools": [SHELL, {"type": "computer"}]}],
    ids=["alone", "forced", "another tool"],
)
def test_tool_of_the_host_that_is_no_offer_is_refused(target: ChatDialect, fields: dict[str, Any]):
    chat = replace(DIALECT.read_request(body(**fields)), max_tokens=100)
    with pytest.raises(Unsupported):
        target.write_request(chat, drop_policy())
