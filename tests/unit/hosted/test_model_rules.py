"""Rules of models by family and version: what each host is sent for its models, and what is reported.

Accepted values: docs/sources.md#model-families. The first table is checked as a whole against them, for every host.
"""

import json
from typing import Any

import pytest

from providers.canonical.errors import Unsupported
from providers.catalogue import build_provider
from providers.fields import OUTPUT_BOUND_FIELDS
from tests.support.adapted_body import adapt_body
from tests.support.request_translation import drop_everything, send_to

USER: Any = [{"role": "user", "content": "Hi"}]
TOOL: Any = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
FORCED: list[Any] = ["required", {"type": "function", "function": {"name": "add"}}]
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
LOW_HIGH_MAX = {"none": "low", "minimal": "low", "medium": "high", "xhigh": "max"}
OFF = {"thinking": {"type": "disabled"}}
REASONING_OFF = {"reasoning": {"enabled": False}}
NONE = {"reasoning_effort": "none"}


def effort(value: str | None) -> dict[str, Any]:
    return {} if value is None else {"reasoning_effort": value}


def each(**sent: str | None) -> dict[str, dict[str, Any]]:
    """Returns the fields that are sent, by effort; an effort that is not named is sent as it is."""
    return {name: effort(sent.get(name, name)) for name in EFFORTS}


def none_at_all(off: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: off if name == "none" else {} for name in EFFORTS}


GROK_TO_HIGH = each(none="low", minimal="low", xhigh="high", max="high")
K3 = each(**LOW_HIGH_MAX)
TOGETHER_K3 = each(none="low", minimal="low", xhigh="max")
DEEPSEEK = {**each(minimal="low", medium="high", xhigh="high"), "none": OFF}
MISTRAL = each(**dict.fromkeys(("minimal", "low", "medium", "xhigh", "max"), "high"))

# Host, model: for each effort, what is sent in its place.
SENT: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("xai", "grok-4.5"): GROK_TO_HIGH,
    ("xai", "grok-4.6"): GROK_TO_HIGH,
    ("xai", "grok-4.7"): each(none="low", minimal="low", max="xhigh"),
    ("xai", "grok-5"): each(none="low", minimal="low", max="xhigh"),
    ("xai", "grok-4.3"): each(minimal="low", xhigh="high", max="high"),
    ("xai", "grok-4-fast-reasoning"): none_at_all({}),
    ("deepseek", "deepseek-v4-pro"): DEEPSEEK,
    ("deepseek", "deepseek-flash"): DEEPSEEK,
    ("deepseek", "deepseek-v5-flash"): DEEPSEEK,
    ("mistral", "mistral-large-4"): MISTRAL,
    ("mistral", "mistral-small-2603"): MISTRAL,
    ("mistral", "mistral-large-5"): MISTRAL,
    ("mistral", "codestral-2508"): none_at_all({}),
    ("mistral", "magistral-medium-2509"): none_at_all({}),
    ("together", "moonshotai/Kimi-K3"): TOGETHER_K3,
    ("together", "moonshotai/Kimi-K4"): K3,
    ("together", "moonshotai/Kimi-K2.6"): none_at_all(REASONING_OFF),
    ("together", "zai-org/GLM-5.3"): TOGETHER_K3,
    ("together", "zai-org/GLM-6"): K3,
    ("together", "zai-org/GLM-5"): none_at_all(REASONING_OFF),
    ("together", "openai/gpt-oss-120b"): GROK_TO_HIGH,
    ("fireworks", "accounts/fireworks/models/kimi-k3"): K3,
    ("fireworks", "accounts/fireworks/models/kimi-k2p6"): each(minimal="low", xhigh="high", max="high"),
    ("fireworks", "accounts/fireworks/models/glm-5p3"): K3,
    ("fireworks", "accounts/fireworks/models/deepseek-v4-pro-0813"): each(minimal="low", medium="high", xhigh="high"),
    ("groq", "qwen/qwen3.8-27b"): {name: effort("none" if name == "none" else "default") for name in EFFORTS},
    ("groq", "openai/gpt-oss-20b"): GROK_TO_HIGH,
    ("cerebras", "zai-glm-5.3"): K3,
    ("cerebras", "qwen-3.8-27b"): {**each(minimal="low", high="xhigh", max="xhigh"), "none": {"disable_reasoning": True}},
    ("moonshot", "kimi-k3.1-pro"): K3,
    ("moonshot", "kimi-k4"): K3,
    ("moonshot", "kimi-k2.6"): none_at_all(OFF),
    ("moonshot", "kimi-k2.7-code"): none_at_all({}),
    ("zai", "glm-5.3-flash"): K3,
    ("zai", "glm-6"): K3,
    ("zai", "glm-4.7"): none_at_all(OFF),
    ("alibaba", "qwen3.8-max"): {**each(minimal="low", high="xhigh", max="xhigh"), "none": {"enable_thinking": False}},
    ("hyperbolic", "deepseek-ai/DeepSeek-V4-Pro"): {name: {} for name in EFFORTS},
}


@pytest.mark.parametrize(("host", "model", "asked"), [(host, model, name) for (host, model) in SENT for name in EFFORTS])
def test_each_effort_is_one_that_the_model_takes_and_a_change_is_reported(host: str, model: str, asked: str) -> None:
    expected = SENT[host, model][asked]
    sent, dropped, _ = adapt_body(build_provider(host, "h", {}), {"model": model, "messages": USER, "reasoning_effort": asked})
    assert sent == {"model": model, "messages": USER, **expected}
    said_otherwise = asked == "none" and expected in (OFF, REASONING_OFF, NONE, {"disable_reasoning": True}, {"enable_thinking": False})
    assert dropped == ([] if said_otherwise or expected == effort(asked) else ["reasoning_effort"])


@pytest.mark.parametrize(
    ("model", "asked", "expected"),
    [
        ("z-ai/glm-5.3", "none", "low"),
        ("x-ai/grok-4.7", "none", "low"),
        ("google/gemini-4-argon", "none", "low"),
        ("qwen/qwen3.8-max", "none", "low"),
        ("moonshotai/kimi-k3", "medium", "medium"),  # OpenRouter finds the nearest level itself
        ("deepseek/deepseek-v4-pro", "none", "none"),
        ("deepseek/deepseek-v4-pro", "minimal", "minimal"),
    ],
)
def test_openrouter_gets_no_effort_that_a_mandatory_reasoner_refuses(model: str, asked: str, expected: str) -> None:
    sent, dropped, _ = adapt_body(build_provider("openrouter", "o", {}), {"model": model, "messages": USER, "reasoning_effort": asked})
    assert sent["reasoning"] == {"effort": expected}
    assert dropped == ([] if asked == expected else ["reasoning_effort"])


@pytest.mark.parametrize(
    ("host", "model", "asked", "expected"),
    [
        ("xai", "grok-4.5", "none", {"effort": "low", "summary": "auto"}),
        ("xai", "grok-4.7", "max", {"effort": "xhigh", "summary": "auto"}),
        ("xai", "grok-4", "high", {"summary": "auto"}),
        ("deepseek", "deepseek-v4-pro", "xhigh", {"effort": "high", "summary": "auto"}),
        ("deepseek", "deepseek-v4-pro", "none", {"effort": "none", "summary": "auto"}),
    ],
)
def test_efforts_of_responses_follow_the_same_rules(host: str, model: str, asked: str, expected: dict[str, Any]) -> None:
    request: Any = {"model": model, "input": "Hi", "reasoning": {"effort": asked, "summary": "auto"}}
    sent, dropped, _ = adapt_body(build_provider(host, "h", {}), request, dialect="openai_responses")
    assert sent["reasoning"] == expected
    assert dropped == ([] if expected.get("effort") == asked else ["reasoning.effort"])


@pytest.mark.parametrize(
    ("host", "model", "asked", "expected"),
    [
        ("deepseek", "deepseek-v4-pro", "medium", "high"),
        ("fireworks", "accounts/fireworks/models/kimi-k3", "xhigh", "max"),
        ("fireworks", "accounts/fireworks/models/glm-5p3", "low", "low"),
    ],
)
def test_efforts_of_messages_follow_the_same_rules(host: str, model: str, asked: str, expected: str) -> None:
    request: Any = {"model": model, "messages": USER, "max_tokens": 9, "output_config": {"effort": asked}}
    sent, dropped, _ = adapt_body(build_provider(host, "h", {}), request, dialect="anthropic_messages")
    assert sent["output_config"] == {"effort": expected}
    assert dropped == ([] if asked == expected else ["output_config.effort"])


def test_thinking_that_cannot_be_switched_off_becomes_the_least_effort() -> None:
    request: Any = {"model": "zai-org/GLM-5.3", "messages": USER, "thinking": {"type": "disabled"}}
    assert adapt_body(build_provider("together", "t", {}), request)[:2] == (
        {"model": "zai-org/GLM-5.3", "messages": USER, "reasoning_effort": "low"},
        ["thinking"],
    )
    messages: Any = {"model": "accounts/fireworks/models/kimi-k3", "messages": USER, "max_tokens": 9, "thinking": {"type": "disabled"}}
    sent, dropped, _ = adapt_body(build_provider("fireworks", "f", {}), messages, dialect="anthropic_messages")
    assert "thinking" not in sent and sent["output_config"] == {"effort": "low"} and dropped == ["thinking"]


@pytest.mark.parametrize("choice", FORCED)
@pytest.mark.parametrize(
    ("host", "model", "off"),
    [
        ("deepseek", "deepseek-v4-pro", OFF),
        ("deepseek", "deepseek-v5-pro", OFF),
        ("together", "deepseek-ai/DeepSeek-V4-Pro-0813", REASONING_OFF),
        ("fireworks", "accounts/fireworks/models/deepseek-v4-pro-0813", NONE),
        ("openrouter", "deepseek/deepseek-v4-pro", {"reasoning": {"effort": "none"}}),
    ],
)
def test_forced_call_switches_off_thinking_that_was_not_requested(host: str, model: str, off: dict[str, Any], choice: Any) -> None:
    request: Any = {"model": model, "messages": USER, "tools": [TOOL], "tool_choice": choice}
    sent, dropped, _ = adapt_body(build_provider(host, "h", {}), request)
    assert sent["tool_choice"] == choice and sent.items() >= off.items() and dropped == []


@pytest.mark.parametrize("choice", FORCED)
@pytest.mark.parametrize("host", ["deepseek", "together", "fireworks", "openrouter"])
def test_forced_call_beside_requested_thinking_is_refused_by_name_or_dropped(host: str, choice: Any) -> None:
    request: Any = {"model": "deepseek-v4-pro", "messages": USER, "tools": [TOOL], "tool_choice": choice, "reasoning_effort": "high"}
    with pytest.raises(Unsupported) as refused:
        adapt_body(build_provider(host, "h", {}), request)
    assert refused.value.param == "tool_choice"
    sent, dropped, _ = adapt_body(build_provider(host, "h", {}), request, drop_everything)
    assert "tool_choice" not in sent and dropped == ["tool_choice"]


@pytest.mark.parametrize(("host", "model"), [("xai", "grok-4.7"), ("fireworks", "glm-5p3"), ("mistral", "mistral-large-4")])
def test_models_that_take_forced_calls_while_thinking_get_them(host: str, model: str) -> None:
    request: Any = {"model": model, "messages": USER, "tools": [TOOL], "tool_choice": "required"}
    assert adapt_body(build_provider(host, "h", {}), request)[:2] == (request, [])


@pytest.mark.parametrize("host", ["together", "fireworks", "groq", "cerebras"])
def test_kimi_samples_at_its_own_temperature(host: str) -> None:
    request: Any = {"model": "moonshotai/Kimi-K3", "messages": USER, "temperature": 0.2, "top_p": 0.5}
    sent, dropped, _ = adapt_body(build_provider(host, "h", {}), request)
    assert sent == {"model": "moonshotai/Kimi-K3", "messages": USER} and sorted(dropped) == ["temperature", "top_p"]
    accepted: Any = {"model": "moonshotai/Kimi-K3", "messages": USER, "temperature": 1, "top_p": 0.95}
    assert adapt_body(build_provider(host, "h", {}), accepted)[:2] == (accepted, [])


@pytest.mark.parametrize(
    ("fields", "sent_instead"),
    [
        ({"temperature": 0.2}, {}),
        ({"temperature": 1, "n": 1, "presence_penalty": 0}, {"temperature": 1, "n": 1, "presence_penalty": 0}),
        ({"presence_penalty": 0.5}, None),
        ({"n": 2}, None),
    ],
)
def test_moonshot_fixes_more_than_the_temperature(fields: dict[str, Any], sent_instead: dict[str, Any] | None) -> None:
    request = {"model": "kimi-k3", "messages": USER}
    moonshot = build_provider("moonshot", "m", {})
    if sent_instead is not None:
        assert adapt_body(moonshot, {**request, **fields})[0] == {**request, **sent_instead}
        return
    with pytest.raises(Unsupported) as refused:
        adapt_body(moonshot, {**request, **fields})
    assert refused.value.param == next(iter(fields))
    assert adapt_body(moonshot, {**request, **fields}, drop_everything)[:2] == (request, [refused.value.param])


def test_moonshots_temperature_is_another_one_while_it_does_not_think() -> None:
    request: Any = {"model": "kimi-k2.6", "messages": USER, "thinking": {"type": "disabled"}, "temperature": 0.6}
    assert adapt_body(build_provider("moonshot", "m", {}), request)[:2] == (request, [])
    sent, dropped, _ = adapt_body(build_provider("moonshot", "m", {}), {**request, "temperature": 1})
    assert "temperature" not in sent and dropped == ["temperature"]


@pytest.mark.parametrize("choice", FORCED)
@pytest.mark.parametrize(("host", "model"), [("moonshot", "kimi-k3"), ("zai", "glm-5.3")])
def test_demands_for_a_call_are_written_into_the_prompt_where_a_host_takes_none(host: str, model: str, choice: Any) -> None:
    fields: Any = {"messages": USER, "tools": [TOOL], "tool_choice": choice}
    sent = send_to(build_provider(host, "h", {}), "openai_chat", fields, model)
    body = json.loads(sent.raw)
    assert body.get("tool_choice") in (None, "auto") and body["tools"][0]["function"]["name"] == "add"
    assert sent.emulation is not None and "tool_choice" in sent.emulation.fields and sent.dropped == []


@pytest.mark.parametrize(("stream", "tools", "expected"), [(True, [TOOL], True), (False, [TOOL], None), (True, None, None)])
def test_zai_streams_arguments_of_calls(stream: bool, tools: Any, expected: bool | None) -> None:
    fields: Any = {"messages": USER, "stream": stream, **({} if tools is None else {"tools": tools})}
    sent = json.loads(send_to(build_provider("zai", "z", {}), "openai_chat", fields, "glm-5.3").raw)
    assert sent.get("tool_stream") is expected


def test_openrouter_chooses_a_host_that_takes_the_temperature() -> None:
    request: Any = {"model": "moonshotai/kimi-k3", "messages": USER, "temperature": 0.2}
    assert adapt_body(build_provider("openrouter", "o", {}), request)[:2] == (request, [])


IMAGE: Any = [
    {"role": "user", "content": [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}
]


@pytest.mark.parametrize("host", ["deepseek", "together", "fireworks", "openrouter"])
def test_deepseeks_pro_is_sent_no_images_and_flash_is(host: str) -> None:
    with pytest.raises(Unsupported, match="images") as refused:
        adapt_body(build_provider(host, "h", {}), {"model": "deepseek-v4-pro", "messages": IMAGE})
    assert refused.value.param == "messages[0].content[1]"
    request: Any = {"model": "deepseek-v4.1-flash", "messages": IMAGE}
    assert adapt_body(build_provider(host, "h", {}), request)[:2] == (request, [])


@pytest.mark.parametrize(
    ("caller", "fields", "path"),
    [
        (
            "openai_responses",
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}]},
            "input[0].content[0]",
        ),
        (
            "anthropic_messages",
            {
                "max_tokens": 9,
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}],
                    }
                ],
            },
            "messages[0].content[0]",
        ),
    ],
)
@pytest.mark.parametrize("host", ["together", "openrouter"])
def test_images_that_a_model_does_not_read_are_refused_at_the_callers_own_place(
    host: str, caller: str, fields: dict[str, Any], path: str
) -> None:
    with pytest.raises(Unsupported, match="reads no images") as refused:
        send_to(build_provider(host, "h", {}), caller, fields, "deepseek-ai/DeepSeek-V4-Pro")
    assert refused.value.param == path


def test_glm_gets_schemas_of_arguments_without_references() -> None:
    parameters: Any = {
        "type": "object",
        "properties": {
            "at": {"$ref": "#/$defs/Place", "description": "where"},
            "all": {"type": "array", "items": {"$ref": "#/$defs/Place"}},
        },
        "$defs": {"Place": {"type": "object", "properties": {"city": {"$ref": "#/$defs/City"}}}, "City": {"type": "string"}},
    }
    place: Any = {"type": "object", "properties": {"city": {"type": "string"}}}
    inlined: Any = {
        "type": "object",
        "properties": {"at": {**place, "description": "where"}, "all": {"type": "array", "items": place}},
    }
    tool: Any = {"type": "function", "function": {"name": "go", "parameters": parameters}}
    for host, model in (
        ("together", "zai-org/GLM-5.3"),
        ("fireworks", "glm-5p3"),
        ("openrouter", "z-ai/glm-6"),
        ("cerebras", "zai-glm-5.3"),
    ):
        sent, dropped, _ = adapt_body(build_provider(host, "h", {}), {"model": model, "messages": USER, "tools": [tool]})
        assert sent["tools"][0]["function"]["parameters"] == inlined and dropped == []
    sent, _, _ = adapt_body(build_provider("together", "t", {}), {"model": "zai-org/GLM-5", "messages": USER, "tools": [tool]})
    assert sent["tools"] == [tool]


def test_recursive_schema_stays_as_it_is() -> None:
    parameters: Any = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}}
    tool: Any = {"type": "function", "function": {"name": "go", "parameters": parameters}}
    sent, _, _ = adapt_body(build_provider("together", "t", {}), {"model": "zai-org/GLM-5.3", "messages": USER, "tools": [tool]})
    assert sent["tools"] == [tool]


@pytest.mark.parametrize("asked", [131_072, 200_000])
def test_more_output_than_glm_writes_is_its_most(asked: int) -> None:
    request: Any = {"model": "zai-org/GLM-5.3", "messages": USER, "max_tokens": asked}
    sent, dropped, _ = adapt_body(build_provider("together", "t", {}), request)
    assert {key: sent[key] for key in OUTPUT_BOUND_FIELDS & sent.keys()} == {"max_tokens": 131_072} and dropped == []


def test_deepseek_gets_reasoning_of_every_turn_in_a_request_with_tools() -> None:
    history: Any = [*USER, {"role": "assistant", "content": "Hello"}, *USER]
    request: Any = {"model": "deepseek-v4-pro", "messages": history, "tools": [TOOL]}
    sent, dropped, _ = adapt_body(build_provider("deepseek", "d", {}), request)
    assert sent["messages"][1] == {"role": "assistant", "content": "Hello", "reasoning_content": ""} and dropped == []
    without_tools: Any = {"model": "deepseek-v4-pro", "messages": history}
    assert adapt_body(build_provider("deepseek", "d", {}), without_tools)[:2] == (without_tools, [])


@pytest.mark.parametrize("model", ["kimi-k3", "glm-5.3", "grok-4.7", "deepseek-v4-pro"])
def test_server_at_another_address_derives_nothing_from_the_name(model: str) -> None:
    request: Any = {"model": model, "messages": USER, "reasoning_effort": "minimal", "temperature": 0.2}
    server = build_provider("openai", "x", {}, base_url="http://127.0.0.1:9/v1")
    assert json.loads(json.dumps(adapt_body(server, request)[0])) == request


REFERENCING = {"type": "object", "properties": {"at": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}
INLINED = {"type": "object", "properties": {"at": {"type": "string"}}}
CALLERS: dict[str, dict[str, Any]] = {
    "openai_chat": {
        "messages": USER,
        "reasoning_effort": "xhigh",
        "tools": [{"type": "function", "function": {"name": "go", "parameters": REFERENCING}}],
    },
    "openai_responses": {
        "input": "Hi",
        "reasoning": {"effort": "xhigh"},
        "tools": [{"type": "function", "name": "go", "parameters": REFERENCING}],
    },
    "anthropic_messages": {
        "messages": USER,
        "max_tokens": 9,
        "output_config": {"effort": "xhigh"},
        "tools": [{"name": "go", "input_schema": REFERENCING}],
    },
}
REPORTED = {"openai_chat": "reasoning_effort", "openai_responses": "reasoning", "anthropic_messages": "output_config"}
HOSTS: dict[str, tuple[str, dict[str, Any]]] = {
    "together": ("zai-org/GLM-5.4", {}),
    "fireworks": ("accounts/fireworks/models/glm-5p3", {}),
    "cerebras": ("zai-glm-5.3", {}),
    "vertex": ("zai-org/glm-5.3-maas", {"project": "p"}),
    "azure": ("GLM-5.3", {"resource": "r", "api": "models"}),
    "bedrock": ("zai.glm-5.3", {"region": "us-east-1"}),
    "bedrock mantle": ("zai.glm-5.3", {"region": "us-east-1", "api": "mantle"}),
}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("host", HOSTS)
def test_callers_of_every_api_get_the_models_rules_at_every_host_and_a_report_in_their_own_words(host: str, caller: str) -> None:
    model, options = HOSTS[host]
    sent = send_to(build_provider(host.split()[0], "h", options), caller, CALLERS[caller], model)
    body = json.loads(sent.raw)
    assert "$ref" not in json.dumps(body) and json.dumps(INLINED["properties"])[1:-1] in json.dumps(body)
    assert "xhigh" not in json.dumps(body)
    if host != "bedrock":  # Converse has no place for an effort of this model
        assert '"max"' in json.dumps(body)
    assert [path.partition(".")[0] for path in sent.dropped] == [REPORTED[caller]]


SCHEMA: Any = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
SCHEMA_CALLERS: dict[str, dict[str, Any]] = {
    "openai_chat": {"messages": USER, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
    "openai_responses": {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}},
    "anthropic_messages": {"messages": USER, "max_tokens": 9, "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}


@pytest.mark.parametrize("caller", SCHEMA_CALLERS)
def test_deepseek_gets_schemas_in_responses_which_take_them(caller: str) -> None:
    sent = send_to(build_provider("deepseek", "d", {}), caller, SCHEMA_CALLERS[caller], "deepseek-v4-pro")
    assert sent.dialect.name == "openai_responses"
    body = json.loads(sent.raw)
    assert body["text"]["format"]["schema"] == SCHEMA and body["text"]["format"]["type"] == "json_schema"
    assert sent.constraint_plan is not None and sent.constraint_plan.enforcement == "validated" and sent.dropped == []


@pytest.mark.parametrize("options", [{"beta": True}, {"dialects": ["openai_chat"]}])
def test_deepseeks_chat_gets_a_schema_as_an_instruction(options: dict[str, Any]) -> None:
    sent = send_to(build_provider("deepseek", "d", options), "openai_chat", SCHEMA_CALLERS["openai_chat"], "deepseek-v4-pro")
    body = json.loads(sent.raw)
    assert sent.dialect.name == "openai_chat" and body["response_format"] == {"type": "json_object"}
    assert body["messages"][0]["role"] == "system"


BEDROCK = build_provider("bedrock", "aws", {"region": "us-east-1"})


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "add"}}])
def test_call_that_deepseek_cannot_be_forced_to_while_it_thinks_is_demanded_in_the_prompt_at_converse(choice: Any) -> None:
    request: Any = {"messages": USER, "tools": [TOOL], "tool_choice": choice}
    sent = send_to(BEDROCK, "openai_chat", request, "deepseek.v4-pro-v1:0")
    assert "toolChoice" not in json.loads(sent.raw)["toolConfig"] or "auto" in json.loads(sent.raw)["toolConfig"]["toolChoice"]
    assert sent.emulation is not None and sent.dropped == []
    forced = send_to(BEDROCK, "openai_chat", request, "zai.glm-5")
    assert {"any", "tool"} & json.loads(forced.raw)["toolConfig"]["toolChoice"].keys()


def test_kimi_samples_at_its_own_temperature_at_converse() -> None:
    sent = send_to(BEDROCK, "openai_chat", {"messages": USER, "temperature": 0.2, "top_p": 0.5}, "moonshotai.kimi-k3")
    assert "inferenceConfig" not in json.loads(sent.raw) and sorted(sent.dropped) == ["temperature", "top_p"]


@pytest.mark.parametrize(("model", "is_taken"), [("google/gemini-2.5-pro", True), ("google/gemini-4-neon", False)])
def test_sampling_that_gemini_ignores_is_reported_at_openrouter(model: str, is_taken: bool) -> None:
    openrouter = build_provider("openrouter", "o", {})
    sent, dropped, _ = adapt_body(openrouter, {"model": model, "messages": USER, "temperature": 0.2})
    assert ("temperature" in sent, dropped) == ((True, []) if is_taken else (False, ["temperature"]))
    sent, dropped, _ = adapt_body(openrouter, {"model": model, "messages": USER, "temperature": 1, "presence_penalty": 0})
    assert ("temperature" in sent, dropped) == (is_taken, [])
    if not is_taken:
        with pytest.raises(Unsupported) as refused:
            adapt_body(openrouter, {"model": model, "messages": USER, "presence_penalty": 0.5})
        assert refused.value.param == "presence_penalty"
