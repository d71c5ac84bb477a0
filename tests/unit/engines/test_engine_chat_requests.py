"""Chat requests that several engines handle alike: roles, reasoning, tool choices and empty content, written so that none is ignored."""

from typing import Any

import pytest

from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.catalogue import build_provider
from tests.support.field_handling import HI, TOOL, emulated_chat_fields, translate_chat_fields

OTHER: dict[str, Any] = {"type": "function", "function": {"name": "then", "parameters": {"type": "object", "properties": {}}}}
CUSTOM: dict[str, Any] = {"type": "custom", "custom": {"name": "free"}}

CHAT_TEMPLATE_ENGINES = ("vllm", "sglang", "lmdeploy", "tgi", "transformers")
ALL_ENGINES = (*CHAT_TEMPLATE_ENGINES, "llamacpp", "llamacpp_python", "ollama", "mini_sglang")


def engine(adapter: str) -> Provider:
    return build_provider(adapter, "gpu", {}, "http://127.0.0.1:1")


@pytest.mark.parametrize("adapter", CHAT_TEMPLATE_ENGINES)
def test_developer_message_becomes_a_system_message(adapter: str) -> None:
    body, dropped = translate_chat_fields(engine(adapter), {"messages": [{"role": "developer", "content": "Rhyme."}, *HI]})
    assert body["messages"] == [{"role": "system", "content": "Rhyme."}, *HI] and dropped == []


def test_vllm_0_32_and_later_gets_developer_messages_unchanged() -> None:
    request = {"messages": [{"role": "developer", "content": "Rhyme."}, *HI]}
    assert translate_chat_fields(engine("vllm").at_version((0, 32, 0)), request)[0]["messages"] == request["messages"]
    assert translate_chat_fields(engine("vllm").at_version((0, 31, 9)), request)[0]["messages"][0]["role"] == "system"


@pytest.mark.parametrize("adapter", CHAT_TEMPLATE_ENGINES)
def test_developer_message_with_tools_stays_a_developer_message(adapter: str) -> None:
    developer = {"role": "developer", "content": "Rhyme.", "tools": [TOOL]}
    assert translate_chat_fields(engine(adapter), {"messages": [developer, *HI]})[0]["messages"][0] == developer


@pytest.mark.parametrize(
    ("adapter", "field", "other_field"),
    [
        ("vllm", "reasoning", "reasoning_content"),
        ("sglang", "reasoning_content", "reasoning"),
        ("lmdeploy", "reasoning_content", "reasoning"),
        ("llamacpp", "reasoning_content", "reasoning"),
    ],
)
def test_reasoning_beside_a_null_of_the_other_field_is_sent_in_the_engines_field(adapter: str, field: str, other_field: str) -> None:
    """Clients send back such a message if they dumped it with all its fields."""
    body, _ = translate_chat_fields(
        engine(adapter), {"messages": [*HI, {"role": "assistant", "content": "Hi.", other_field: "Hm.", field: None}, *HI]}
    )
    assert body["messages"][1] == {"role": "assistant", "content": "Hi.", field: "Hm."}
    body, _ = translate_chat_fields(
        engine(adapter), {"messages": [*HI, {"role": "assistant", "content": "Hi.", other_field: None, field: "Hm."}, *HI]}
    )
    assert body["messages"][1][field] == "Hm."


@pytest.mark.parametrize(
    ("adapter", "mode", "choice"),
    [
        *((adapter, "auto", "auto") for adapter in ("vllm", "sglang", "lmdeploy", "tgi", "llamacpp")),
        *((adapter, "required", "required") for adapter in ("vllm", "sglang", "tgi", "llamacpp")),
        ("lmdeploy", "required", {"type": "function", "function": {"name": "now"}}),
    ],
)
def test_allowed_tools_choice_sends_only_the_allowed_tools(adapter: str, mode: str, choice: Any) -> None:
    allowed = {"mode": mode, "tools": [{"type": "function", "function": {"name": "now"}}]}
    body, _ = translate_chat_fields(
        engine(adapter), {"tools": [TOOL, OTHER], "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}}
    )
    assert body["tools"] == [TOOL] and body["tool_choice"] == choice


@pytest.mark.parametrize("adapter", ["vllm", "sglang", "lmdeploy", "tgi", "llamacpp", "ollama", "transformers"])
def test_custom_tool_is_refused_with_its_path_or_dropped(adapter: str) -> None:
    with pytest.raises(Unsupported) as refused:
        translate_chat_fields(engine(adapter), {"tools": [TOOL, CUSTOM]})
    assert refused.value.param == "tools[1]"
    body, dropped = translate_chat_fields(engine(adapter), {"tools": [TOOL, CUSTOM]}, drop=True)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["now"] and dropped == ["tools[1]"]


@pytest.mark.parametrize("adapter", ["sglang", "lmdeploy", "tgi", "llamacpp", "llamacpp_python", "ollama", "mini_sglang", "transformers"])
def test_top_logprobs_without_logprobs_is_refused_unless_it_is_zero(adapter: str) -> None:
    with pytest.raises(Unsupported) as refused:
        translate_chat_fields(engine(adapter), {"top_logprobs": 3})
    assert refused.value.param == "top_logprobs"
    body, dropped = translate_chat_fields(engine(adapter), {"logprobs": False, "top_logprobs": 0})
    assert "top_logprobs" not in body and not body.get("logprobs") and dropped == []


@pytest.mark.parametrize("adapter", ["sglang", "lmdeploy", "llamacpp", "tgi", "ollama", "llamacpp_python"])
def test_parallel_tool_calls_false_without_tools_is_omitted(adapter: str) -> None:
    assert "parallel_tool_calls" not in translate_chat_fields(engine(adapter), {"parallel_tool_calls": False})[0]


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_sglang_is_not_sent_parallel_tool_calls_false_unless_it_is_in_accepts(choice: str) -> None:
    """Few of its parsers have a grammar for it; the others silently ignore it. So the gateway passes on one call."""
    request = {"tools": [TOOL], "tool_choice": choice, "parallel_tool_calls": False}
    body, dropped = translate_chat_fields(engine("sglang"), request)
    assert dropped == [] and body["tools"] == [TOOL] and "parallel_tool_calls" not in body
    assert emulated_chat_fields(engine("sglang"), request) == ("parallel_tool_calls",)
    trusted = build_provider("sglang", "gpu", {"accepts": ["parallel_tool_calls"]}, "http://127.0.0.1:1")
    assert translate_chat_fields(trusted, request)[0]["parallel_tool_calls"] is False


@pytest.mark.parametrize("adapter", ALL_ENGINES)
@pytest.mark.parametrize(
    "fields", [{"function_call": "none"}, {"function_call": "auto"}, {"modalities": ["text"]}, {"verbosity": "medium"}], ids=str
)
def test_neutral_function_call_modalities_and_verbosity_are_omitted_silently(adapter: str, fields: dict[str, Any]) -> None:
    body, dropped = translate_chat_fields(engine(adapter), fields)
    assert not body.keys() & fields.keys() and dropped == []


@pytest.mark.parametrize(
    "field", ["guided_json", "guided_regex", "guided_choice", "structured_outputs", "structural_tag", "response_format"]
)
def test_null_constraint_field_is_not_sent_to_transformers(field: str) -> None:
    assert translate_chat_fields(engine("transformers"), {field: None}) == translate_chat_fields(engine("transformers"), {})


@pytest.mark.parametrize("field", ["top_k", "min_p", "min_tokens", "temperature", "top_p", "repetition_penalty"])
def test_null_sampling_field_is_not_sent_to_llama_cpp_python(field: str) -> None:
    assert translate_chat_fields(engine("llamacpp_python"), {field: None}) == translate_chat_fields(engine("llamacpp_python"), {})


def test_top_k_minus_one_is_sent_to_llama_cpp_python_as_zero() -> None:
    assert translate_chat_fields(engine("llamacpp_python"), {"top_k": -1})[0]["top_k"] == 0


@pytest.mark.parametrize("adapter", ["ollama", "mini_sglang"])
@pytest.mark.parametrize("content", [None, []], ids=str)
def test_empty_user_content_is_sent_as_an_empty_string(adapter: str, content: Any) -> None:
    body, _ = translate_chat_fields(engine(adapter), {"messages": [{"role": "user", "content": content}]})
    assert body["messages"] == [{"role": "user", "content": ""}]
