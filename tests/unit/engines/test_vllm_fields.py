"""Other fields at vLLM: what it would ignore with a 200 is refused, dropped with permission, or sent in another form."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.engines.vllm.adapter import VLLM
from providers.engines.vllm.fields import IGNORED_FIELDS, IGNORED_FIELDS_BY_DIALECT, IGNORED_HINT_FIELDS, VLLM_NEUTRAL_VALUES
from providers.fields import ENGINE_FIELDS
from tests.support.case_tables import assert_every
from tests.support.request_translation import drop_everything, drop_nothing

CURRENT_VLLM = VLLM("v", {}, (0, 32))


def adapt(
    fields: dict[str, Any], dialect: str, may_drop: Callable[[str], bool], provider: Provider = CURRENT_VLLM
) -> tuple[dict[str, Any], list[str]]:
    body = Body.read(json.dumps(fields).encode())
    adapted = provider.adapt_request(body, dialect, may_drop)
    return json.loads(body.write()), adapted.dropped


@pytest.mark.parametrize("dialect", IGNORED_FIELDS_BY_DIALECT)
def test_field_vllm_ignores_is_refused_by_name_or_dropped_with_permission(dialect: str) -> None:
    def check(field: str) -> None:
        with pytest.raises(Unsupported) as refused:
            adapt({field: "value"}, dialect, drop_nothing)
        assert refused.value.param == field
        assert adapt({field: "value"}, dialect, drop_everything) == ({}, [field])
        assert adapt({field: "value"}, dialect, drop_nothing, VLLM("v", {"accepts": [field]}, (0, 32)))[0] == {field: "value"}
        for neutral in (None, *VLLM_NEUTRAL_VALUES.get(field, ())):
            _, dropped = adapt({field: neutral}, dialect, drop_nothing)
            assert dropped == []

    assert_every(check, sorted((IGNORED_FIELDS_BY_DIALECT[dialect] | IGNORED_FIELDS) - {"verbosity"}))


def test_verbosity_is_a_hint() -> None:
    assert adapt({"verbosity": "low"}, "openai_chat", drop_nothing) == ({}, ["verbosity"])


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_completions"])
def test_hint_fields_are_dropped_and_reported(dialect: str) -> None:
    for field in IGNORED_HINT_FIELDS:
        assert adapt({field: "x"}, dialect, drop_nothing) == ({}, [field])


def test_every_engine_field_is_sent_renamed_dropped_or_refused() -> None:
    """Each field of a chat for vLLM is sent by its own name, sent in another form, refused, or dropped as a hint."""
    for field in ENGINE_FIELDS:
        try:
            sent, dropped = adapt({field: 2, "use_beam_search": True}, "openai_chat", drop_nothing)
        except Unsupported as refused:
            assert refused.param == field
        else:
            sent_as = VLLM.renamed_fields.get(field, field)
            assert sent_as in sent or field in dropped or sent.get("chat_template_kwargs") == {field: 2}


def test_enable_thinking_becomes_a_chat_template_argument() -> None:
    fields = {"enable_thinking": False, "chat_template_kwargs": {"a": 1}}
    for dialect in ("openai_chat", "openai_responses", "anthropic_messages"):
        assert adapt(fields, dialect, drop_nothing) == ({"chat_template_kwargs": {"enable_thinking": False, "a": 1}}, [])


def test_length_penalty_is_refused_without_beam_search() -> None:
    with pytest.raises(Unsupported):
        adapt({"length_penalty": 2}, "openai_chat", drop_nothing)
    fields = {"length_penalty": 2, "use_beam_search": True}
    assert adapt(fields, "openai_chat", drop_nothing) == (fields, [])
    assert adapt({"length_penalty": 1.0}, "openai_chat", drop_nothing) == ({}, [])


def test_assistant_reasoning_is_sent_under_the_name_all_versions_read() -> None:
    """0.16 to 0.2x read only `reasoning` (vllm-project/vllm#42664); older and newer versions read both names."""
    message = {"role": "assistant", "content": "x", "reasoning_content": "hm"}
    sent, _ = adapt({"messages": [message, {"role": "user", "content": 'say "reasoning_content"'}]}, "openai_chat", drop_nothing)
    assert sent["messages"][0] == {"role": "assistant", "content": "x", "reasoning": "hm"}
    both = [{**message, "reasoning": "hm"}]
    assert adapt({"messages": both}, "openai_chat", drop_nothing)[0]["messages"] == both


def test_file_part_is_refused_by_its_path_or_dropped() -> None:
    text, file = {"type": "text", "text": 'a "file"'}, {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA=="}}
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": [text, file]}]
    with pytest.raises(Unsupported) as refused:
        adapt({"messages": messages}, "openai_chat", drop_nothing)
    assert refused.value.param == "messages[1].content[1]"
    sent, dropped = adapt({"messages": messages}, "openai_chat", drop_everything)
    assert (sent["messages"][1]["content"], dropped) == ([text], ["messages[1].content[1]"])
    plain = [{"role": "user", "content": [text]}]
    assert adapt({"messages": plain}, "openai_chat", drop_nothing) == ({"messages": plain}, [])
