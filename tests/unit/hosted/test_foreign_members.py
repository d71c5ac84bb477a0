"""Members that other gateways add to messages, results in lists and calls of free-text tools, as hosts and engines take them."""

import json
from typing import Any

import pytest

from providers.catalogue import ADAPTERS, build_provider
from tests.support.adapted_body import adapt_body

CALL = {
    "id": "call_1",
    "index": 0,
    "type": "function",
    "provider_specific_fields": {"b": 1},
    "function": {"name": "f", "arguments": "{}", "parsed_arguments": None},
}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}], "name": None},
    {"role": "user", "content": "x"},
    {
        **{"role": "assistant", "content": None, "id": "msg_1", "refusal": None, "audio": None, "function_call": None, "annotations": []},
        **{"provider_specific_fields": {"a": 1}, "thinking_blocks": [{"type": "thinking"}], "tool_calls": [CALL]},
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "A", "name": None},
]
DROPPED = [
    "messages[0].content[0].cache_control",
    "messages[2].provider_specific_fields",
    "messages[2].thinking_blocks",
    "messages[2].tool_calls[0].provider_specific_fields",
]
CUSTOM = {"id": "call_1", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin Patch"}}
CUSTOM_HISTORY = [
    {"role": "user", "content": "x"},
    {"role": "assistant", "content": None, "tool_calls": [CUSTOM]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Done."},
]
# They take custom tools, or are not known; or have no calls; or speak no chat of OpenAI's.
WITHOUT_CUSTOM_CALLS = sorted(
    name
    for name, adapter in ADAPTERS.items()
    if "openai_chat" in adapter.dialects
    and name not in ("openai", "azure", "auto", "sandbox", "openrouter", "mini_sglang", "perplexity", "hyperbolic", "mistral", "sagemaker")
    and name not in ("ollama", "llamacpp_python")
)


@pytest.mark.parametrize("name", ["openai", "azure", "groq", "deepseek", "cerebras", "mistral", "together", "fireworks", "xai"])
def test_host_that_refuses_unknown_members_is_sent_none(name: str):
    sent, dropped, _ = adapt_body(
        build_provider(name, name, {"resource": "r"} if name == "azure" else {}, None), {"model": "m", "messages": HISTORY}
    )
    assert dropped == DROPPED
    allowed = {"role", "content", "tool_calls", "tool_call_id", "annotations", "reasoning_content"}
    assert all(message.keys() <= allowed for message in sent["messages"])
    assert sent["messages"][2]["tool_calls"][0].keys() == {"id", "type", "function"}
    assert sent["messages"][2]["tool_calls"][0]["function"].keys() == {"name", "arguments"}
    assert sent["messages"][0]["content"] == ("s" if name in ("groq", "deepseek") else [{"type": "text", "text": "s"}])


def test_openrouter_and_unknown_servers_get_marks_of_a_cache():
    for provider in (build_provider("openrouter", "openrouter", {}, None), build_provider("openai", "openai", {}, "http://127.0.0.1:1/v1")):
        sent, dropped, _ = adapt_body(provider, {"model": "m", "messages": HISTORY})
        assert sent["messages"][0]["content"] == HISTORY[0]["content"]
        assert dropped == []


def test_plain_history_is_not_touched():
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}, {"role": "user", "content": "z"}]
    sent, dropped, _ = adapt_body(build_provider("groq", "groq", {}, None), {"model": "m", "messages": messages})
    assert (sent["messages"], dropped) == (messages, [])


@pytest.mark.parametrize("name", WITHOUT_CUSTOM_CALLS)
def test_call_of_a_free_text_tool_is_one_of_a_function(name: str):
    address = None if ADAPTERS[name].default_base_url else "http://127.0.0.1:1"
    sent, _, _ = adapt_body(build_provider(name, name, {}, address), {"model": "m", "messages": CUSTOM_HISTORY})
    (call,) = sent["messages"][1]["tool_calls"]
    assert (call["type"], call["function"]["name"]) == ("function", "apply_patch")
    assert json.loads(call["function"]["arguments"]) == {"input": "*** Begin Patch"}
    assert "custom" not in call


def test_deepseek_gets_results_as_text_and_their_images_behind_them():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    texts = [{"type": "text", "text": "It rains."}, {"type": "text", "text": "It is cold."}]
    messages = [
        *CUSTOM_HISTORY[:2],
        {"role": "tool", "tool_call_id": "call_1", "content": [*texts, image]},
        {"role": "user", "content": "Well?"},
    ]
    provider = build_provider("deepseek", "deepseek", {}, None)
    sent, dropped, _ = adapt_body(provider, {"model": "deepseek-flash", "messages": messages})
    assert sent["messages"][2]["content"] == "It rains.\nIt is cold."
    assert sent["messages"][3] == {"role": "user", "content": [{"type": "text", "text": "From the result of tool call call_1:"}, image]}
    assert (sent["messages"][4], dropped) == (messages[3], [])
