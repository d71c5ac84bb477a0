"""What several engines have in common: roles, thoughts, choices of tools and empty words, each said so that none of them passes it over."""

from typing import Any

import pytest

from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.catalogue import build_provider
from tests.laws.engine_fields import HI, TOOL, sent

OTHER: dict[str, Any] = {"type": "function", "function": {"name": "then", "parameters": {"type": "object", "properties": {}}}}
CUSTOM: dict[str, Any] = {"type": "custom", "custom": {"name": "free"}}

OF_TEMPLATES = ("vllm", "sglang", "lmdeploy", "tgi", "transformers")
ALL = (*OF_TEMPLATES, "llamacpp", "llamacpp_python", "ollama", "mini_sglang")


def engine(adapter: str) -> Provider:
    return build_provider(adapter, "gpu", {}, "http://127.0.0.1:1")


@pytest.mark.parametrize("adapter", OF_TEMPLATES)
def test_a_developer_is_the_system_for_templates_pass_over_the_one(adapter: str) -> None:
    body, dropped = sent(engine(adapter), {"messages": [{"role": "developer", "content": "Rhyme."}, *HI]})
    assert body["messages"] == [{"role": "system", "content": "Rhyme."}, *HI] and dropped == []


def test_vllm_since_0_32_knows_by_itself_what_to_make_of_a_developer() -> None:
    asked = {"messages": [{"role": "developer", "content": "Rhyme."}, *HI]}
    assert sent(engine("vllm").at_version((0, 32, 0)), asked)[0]["messages"] == asked["messages"]
    assert sent(engine("vllm").at_version((0, 31, 9)), asked)[0]["messages"][0]["role"] == "system"


@pytest.mark.parametrize("adapter", OF_TEMPLATES)
def test_a_developer_with_tools_stays_one_for_only_its_templates_know_those(adapter: str) -> None:
    developer = {"role": "developer", "content": "Rhyme.", "tools": [TOOL]}
    assert sent(engine(adapter), {"messages": [developer, *HI]})[0]["messages"][0] == developer


@pytest.mark.parametrize(
    ("adapter", "theirs", "other"),
    [
        ("vllm", "reasoning", "reasoning_content"),
        ("sglang", "reasoning_content", "reasoning"),
        ("lmdeploy", "reasoning_content", "reasoning"),
        ("llamacpp", "reasoning_content", "reasoning"),
    ],
)
def test_thoughts_beside_a_null_of_the_other_name_are_given_back(adapter: str, theirs: str, other: str) -> None:
    """As clients give back an answer that they dumped whole."""
    body, _ = sent(engine(adapter), {"messages": [*HI, {"role": "assistant", "content": "Hi.", other: "Hm.", theirs: None}, *HI]})
    assert body["messages"][1] == {"role": "assistant", "content": "Hi.", theirs: "Hm."}
    body, _ = sent(engine(adapter), {"messages": [*HI, {"role": "assistant", "content": "Hi.", other: None, theirs: "Hm."}, *HI]})
    assert body["messages"][1][theirs] == "Hm."


@pytest.mark.parametrize(
    ("adapter", "mode", "choice"),
    [
        *((adapter, "auto", "auto") for adapter in ("vllm", "sglang", "lmdeploy", "tgi", "llamacpp")),
        *((adapter, "required", "required") for adapter in ("vllm", "sglang", "tgi", "llamacpp")),
        ("lmdeploy", "required", {"type": "function", "function": {"name": "now"}}),
    ],
)
def test_a_choice_among_some_tools_is_said_by_sending_those(adapter: str, mode: str, choice: Any) -> None:
    allowed = {"mode": mode, "tools": [{"type": "function", "function": {"name": "now"}}]}
    body, _ = sent(engine(adapter), {"tools": [TOOL, OTHER], "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}})
    assert body["tools"] == [TOOL] and body["tool_choice"] == choice


@pytest.mark.parametrize("adapter", ["vllm", "sglang", "lmdeploy", "tgi", "llamacpp", "ollama", "transformers"])
def test_a_tool_of_free_text_is_refused_by_its_place_or_left_out(adapter: str) -> None:
    with pytest.raises(Unsupported) as refused:
        sent(engine(adapter), {"tools": [TOOL, CUSTOM]})
    assert refused.value.param == "tools[1]"
    body, dropped = sent(engine(adapter), {"tools": [TOOL, CUSTOM]}, drop=True)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["now"] and dropped == ["tools[1]"]


@pytest.mark.parametrize("adapter", ["sglang", "lmdeploy", "tgi", "llamacpp", "llamacpp_python", "ollama", "mini_sglang", "transformers"])
def test_likeliest_tokens_without_logprobs_are_refused_and_none_of_them_ask_for_nothing(adapter: str) -> None:
    with pytest.raises(Unsupported) as refused:
        sent(engine(adapter), {"top_logprobs": 3})
    assert refused.value.param == "top_logprobs"
    body, dropped = sent(engine(adapter), {"logprobs": False, "top_logprobs": 0})
    assert "top_logprobs" not in body and not body.get("logprobs") and dropped == []


@pytest.mark.parametrize("adapter", ["sglang", "lmdeploy", "llamacpp", "tgi", "ollama", "llamacpp_python"])
def test_one_call_at_a_time_asks_for_nothing_where_none_can_be_made(adapter: str) -> None:
    assert "parallel_tool_calls" not in sent(engine(adapter), {"parallel_tool_calls": False})[0]


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_sglang_is_not_trusted_to_make_one_call_at_a_time(choice: str) -> None:
    """Of its parsers few have a grammar for it; with the others it goes without, in silence."""
    asked = {"tools": [TOOL], "tool_choice": choice, "parallel_tool_calls": False}
    with pytest.raises(Unsupported) as refused:
        sent(engine("sglang"), asked)
    assert refused.value.param == "parallel_tool_calls"
    body, dropped = sent(engine("sglang"), asked, drop=True)
    assert dropped == ["parallel_tool_calls"] and body["tools"] == [TOOL] and "parallel_tool_calls" not in body
    trusted = build_provider("sglang", "gpu", {"accepts": ["parallel_tool_calls"]}, "http://127.0.0.1:1")
    assert sent(trusted, asked)[0]["parallel_tool_calls"] is False


@pytest.mark.parametrize("adapter", ALL)
@pytest.mark.parametrize(
    "fields", [{"function_call": "none"}, {"function_call": "auto"}, {"modalities": ["text"]}, {"verbosity": "medium"}], ids=str
)
def test_old_and_new_words_that_ask_for_nothing_are_not_refused(adapter: str, fields: dict[str, Any]) -> None:
    body, dropped = sent(engine(adapter), fields)
    assert not body.keys() & fields.keys() and dropped == []


@pytest.mark.parametrize(
    "field", ["guided_json", "guided_regex", "guided_choice", "structured_outputs", "structural_tag", "response_format"]
)
def test_no_constraint_is_no_field_to_an_engine_that_refuses_those_it_does_not_know(field: str) -> None:
    assert sent(engine("transformers"), {field: None}) == sent(engine("transformers"), {})


@pytest.mark.parametrize("field", ["top_k", "min_p", "min_tokens", "temperature", "top_p", "repetition_penalty"])
def test_null_is_not_sent_to_llama_cpp_python_where_a_number_is_meant(field: str) -> None:
    assert sent(engine("llamacpp_python"), {field: None}) == sent(engine("llamacpp_python"), {})


def test_all_tokens_are_looked_at_in_llama_cpp_pythons_word_for_it() -> None:
    assert sent(engine("llamacpp_python"), {"top_k": -1})[0]["top_k"] == 0


@pytest.mark.parametrize("adapter", ["ollama", "mini_sglang"])
@pytest.mark.parametrize("content", [None, []], ids=str)
def test_an_empty_message_is_one_for_without_any_nothing_is_answered(adapter: str, content: Any) -> None:
    body, _ = sent(engine(adapter), {"messages": [{"role": "user", "content": content}]})
    assert body["messages"] == [{"role": "user", "content": ""}]
