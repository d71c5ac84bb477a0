"""Completions requests to engines: token limits, request ids, and the fields that completions do not have."""

import json
from typing import Any

import pytest

from app.domain.routing import Target
from app.gateway.request_translation.edit_request import edit_request
from app.gateway.request_translation.recipient import Recipient
from providers.canonical.errors import Unsupported
from providers.catalogue import ADAPTERS, DIALECTS, build_provider
from tests.support.field_handling import HI, TOOL, translate_body
from tests.support.request_translation import MEDIA, drop_nothing, make_source

BASE_URL = "http://127.0.0.1:1"
PROMPT = {"model": "m", "prompt": "Once upon"}


def prompt_body(**fields: Any) -> bytes:
    return json.dumps({**PROMPT, **fields}).encode()


@pytest.mark.parametrize("adapter", ["vllm", "lmdeploy", "tgi", "ollama", "llamacpp", "llamacpp_python"])
def test_chat_with_a_raw_prompt_and_no_limit_sends_null_max_tokens(adapter: str):
    """Completions of vLLM, LMDeploy and llama-cpp-python stop after 16 tokens if no limit is given."""
    provider = build_provider(adapter, adapter, {}, BASE_URL)
    sent = json.loads(translate_body(provider, "openai_chat", prompt_body()).raw)
    assert {**PROMPT, "max_tokens": None}.items() <= sent.items() and sent.keys() <= {*PROMPT, "max_tokens", "stream", "stream_options"}
    assert json.loads(translate_body(provider, "openai_chat", prompt_body(max_tokens=7)).raw)["max_tokens"] == 7
    assert "max_tokens" not in json.loads(translate_body(provider, "openai_completions", prompt_body()).raw)


def test_sglang_chat_with_a_raw_prompt_is_refused_without_a_token_limit():
    sglang = build_provider("sglang", "sglang", {}, BASE_URL)
    with pytest.raises(Unsupported) as refused:
        translate_body(sglang, "openai_chat", prompt_body())
    assert refused.value.param == "max_tokens"
    dropped = translate_body(sglang, "openai_chat", prompt_body(), drop="max_tokens".__eq__)
    assert (json.loads(dropped.raw), dropped.dropped) == ({**PROMPT, "rid": "ID"}, ["max_tokens"])
    for field in ("max_tokens", "max_completion_tokens"):
        assert json.loads(translate_body(sglang, "openai_chat", prompt_body(**{field: 7})).raw)["max_tokens"] == 7
    assert "max_tokens" not in json.loads(translate_body(sglang, "openai_completions", prompt_body()).raw)


@pytest.mark.parametrize("adapter", ["sglang", "lmdeploy", "tgi", "ollama"])
@pytest.mark.parametrize(("field", "value"), [("tools", [TOOL]), ("tool_choice", "required"), ("top_logprobs", 2)], ids=str)
def test_chat_only_field_is_refused_or_dropped_for_completions(adapter: str, field: str, value: Any):
    provider = build_provider(adapter, adapter, {}, BASE_URL)
    with pytest.raises(Unsupported) as refused:
        translate_body(provider, "openai_completions", prompt_body(**{field: value}))
    assert refused.value.param == field
    assert field not in json.loads(translate_body(provider, "openai_completions", prompt_body(**{field: value}), drop=True).raw)


@pytest.mark.parametrize(
    ("adapter", "dialect"),
    [*((name, "openai_completions") for name in ("sglang", "tgi", "ollama")), ("tgi", "openai_chat"), ("mini_sglang", "openai_chat")],
)
def test_null_token_limit_field_yields_to_the_other_token_limit_field(adapter: str, dialect: str):
    provider = build_provider(adapter, adapter, {}, BASE_URL)
    request = PROMPT if dialect == "openai_completions" else {"model": "m", "messages": HI}
    for limit_fields in ({"max_tokens": 7, "max_completion_tokens": None}, {"max_completion_tokens": 7, "max_tokens": None}):
        sent = json.loads(translate_body(provider, dialect, json.dumps({**request, **limit_fields}).encode()).raw)
        assert sent["max_tokens"] == 7 and "max_completion_tokens" not in sent
    sent = json.loads(translate_body(provider, dialect, json.dumps({**request, "max_completion_tokens": None}).encode()).raw)
    assert sent.get("max_tokens") is None and "max_completion_tokens" not in sent


@pytest.mark.parametrize("adapter", sorted(ADAPTERS.keys() - {"auto"}))  # its engine is not known yet
@pytest.mark.parametrize("constraint", [{"guided_regex": "a+"}, {"structured_outputs": {"choice": ["a"]}}], ids=["regex", "choice"])
def test_constraint_on_completions_is_planned_or_refused_by_field_name(adapter: str, constraint: dict[str, Any]):
    provider = build_provider(adapter, adapter, {}, BASE_URL)
    if "openai_completions" not in provider.spoken_dialects:
        return
    try:
        translated = translate_body(provider, "openai_completions", prompt_body(**constraint))
    except Unsupported as refused:
        assert refused.param == next(iter(constraint))
    else:
        assert translated.constraint_plan is not None and "openai_completions" in provider.constrained_dialects


def test_sglang_attempt_ids_are_unique_and_none_is_a_prefix_of_another():
    """SGLang refuses an id that is in use, and an abort ends every request whose id begins with the given one."""
    sglang = build_provider("sglang", "sglang", {}, BASE_URL)
    body = json.dumps({"model": "m", "messages": HI}).encode()
    chat = DIALECTS["openai_chat"]
    source = make_source(chat.parse_request(body), body, chat, MEDIA, drop_nothing, inference_id="ID")
    attempts = [edit_request(source, Recipient(sglang, Target("sglang", "m"))) for _ in range(12)]
    ids = [attempt.id for attempt in attempts if attempt is not None]
    assert ids[0] == "ID" and len(set(ids)) == 12
    assert not any(one != other and str(one).startswith(str(other)) for one in ids for other in ids)
    assert [json.loads(attempt.raw)["rid"] for attempt in attempts if attempt is not None] == ids


def test_vllm_attempt_has_no_request_id():
    vllm = build_provider("vllm", "vllm", {}, BASE_URL)
    assert translate_body(vllm, "openai_chat", json.dumps({"model": "m", "messages": HI}).encode()).id is None


@pytest.mark.parametrize("adapter", ["vllm", "sglang", "lmdeploy", "tgi", "llamacpp", "llamacpp_python"])
def test_tools_and_a_constraint_are_refused_together_and_either_may_be_dropped(adapter: str):
    provider = build_provider(adapter, adapter, {}, BASE_URL)
    named = {"type": "function", "function": {"name": TOOL["function"]["name"]}}
    both = {"messages": HI, "tools": [TOOL], "tool_choice": named, "guided_regex": "[a-c]+"}
    body = json.dumps({"model": "m", **both}).encode()
    with pytest.raises(Unsupported):
        translate_body(provider, "openai_chat", body)
    with_tools = translate_body(provider, "openai_chat", body, drop="guided_regex".__eq__)
    assert (with_tools.dropped, with_tools.constraint_plan) == (["guided_regex"], None)
    assert (
        json.loads(with_tools.raw)["tools"]
        and not {"guided_regex", "regex", "grammar", "response_format"} & json.loads(with_tools.raw).keys()
    )
    with_constraint = translate_body(provider, "openai_chat", body, drop="tools".__eq__)
    assert with_constraint.dropped == ["tools"] and with_constraint.constraint_plan is not None
    assert "tools" not in json.loads(with_constraint.raw)
