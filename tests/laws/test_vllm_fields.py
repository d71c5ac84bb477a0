"""Laws of the other fields at vLLM: what it would pass over with a 200 is refused, dropped by leave, or said otherwise."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from providers.adapters.provider import Provider
from providers.canonical.chat import ENGINE_FIELDS
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.engines.vllm.adapter import VLLM
from providers.engines.vllm.fields import IGNORED_FIELDS, IGNORED_FIELDS_BY_DIALECT, IGNORED_HINT_FIELDS, VLLM_NEUTRAL_VALUES
from tests.laws.asking import everything, nothing

NOW = VLLM("v", {}, (0, 32))
PASSED_OVER = [(dialect, field) for dialect, fields in IGNORED_FIELDS_BY_DIALECT.items() for field in sorted(fields | IGNORED_FIELDS)]


def bent(
    fields: dict[str, Any], dialect: str, may_drop: Callable[[str], bool], provider: Provider = NOW
) -> tuple[dict[str, Any], list[str]]:
    body = Body.read(json.dumps(fields).encode())
    told = provider.adapt_request(body, dialect, may_drop)
    return json.loads(body.write()), told.dropped


@pytest.mark.parametrize(("dialect", "field"), PASSED_OVER)
def test_what_it_passes_over_is_refused_by_name_and_dropped_by_leave(dialect: str, field: str) -> None:
    with pytest.raises(Unsupported) as refused:
        bent({field: "asked"}, dialect, nothing)
    assert refused.value.param == field
    assert bent({field: "asked"}, dialect, everything) == ({}, [field])
    assert bent({field: "asked"}, dialect, nothing, VLLM("v", {"accepts": [field]}, (0, 32)))[0] == {field: "asked"}
    for idle in (None, *VLLM_NEUTRAL_VALUES.get(field, ())):
        _, dropped = bent({field: idle}, dialect, nothing)
        assert dropped == []


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions"])
def test_what_changes_no_answer_goes_and_is_reported(dialect: str) -> None:
    for field in IGNORED_HINT_FIELDS:
        assert bent({field: "x"}, dialect, nothing) == ({}, [field])


def test_every_word_that_engines_have_is_decided_on() -> None:
    """A chat for vLLM has each by its own name, or says it otherwise, or refuses it, or drops it as a hint."""
    for word in ENGINE_FIELDS:
        try:
            sent, dropped = bent({word: 2, "use_beam_search": True}, "openai_chat", nothing)
        except Unsupported as refused:
            assert refused.param == word
        else:
            assert word in sent or word in dropped or sent.get("chat_template_kwargs") == {word: 2}


def test_whether_to_think_is_an_argument_of_the_template() -> None:
    asked = {"enable_thinking": False, "chat_template_kwargs": {"a": 1}}
    for dialect in ("openai_chat", "openai_responses", "anthropic_messages"):
        assert bent(asked, dialect, nothing) == ({"chat_template_kwargs": {"enable_thinking": False, "a": 1}}, [])


def test_a_penalty_on_length_is_for_beam_search() -> None:
    with pytest.raises(Unsupported):
        bent({"length_penalty": 2}, "openai_chat", nothing)
    asked = {"length_penalty": 2, "use_beam_search": True}
    assert bent(asked, "openai_chat", nothing) == (asked, [])
    assert bent({"length_penalty": 1.0}, "openai_chat", nothing) == ({}, [])


def test_reasoning_goes_back_under_the_name_that_all_versions_read() -> None:
    """0.16 to 0.2x read `reasoning` alone (vllm-project/vllm#42664); older and newer ones either."""
    told = {"role": "assistant", "content": "x", "reasoning_content": "hm"}
    sent, _ = bent({"messages": [told, {"role": "user", "content": 'say "reasoning_content"'}]}, "openai_chat", nothing)
    assert sent["messages"][0] == {"role": "assistant", "content": "x", "reasoning": "hm"}
    both = [{**told, "reasoning": "hm"}]
    assert bent({"messages": both}, "openai_chat", nothing)[0]["messages"] == both


def test_a_document_is_refused_by_its_place() -> None:
    text, file = {"type": "text", "text": 'a "file"'}, {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA=="}}
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": [text, file]}]
    with pytest.raises(Unsupported) as refused:
        bent({"messages": messages}, "openai_chat", nothing)
    assert refused.value.param == "messages[1].content[1]"
    sent, dropped = bent({"messages": messages}, "openai_chat", everything)
    assert (sent["messages"][1]["content"], dropped) == ([text], ["messages[1].content[1]"])
    plain = [{"role": "user", "content": [text]}]
    assert bent({"messages": plain}, "openai_chat", nothing) == ({"messages": plain}, [])
