"""What engines are asked beside a caller's words: for how long they go on, and under which id; and what no completion can be asked."""

import json
from typing import Any

import pytest

from app.domain import Target
from app.gateway.request_translation.translator import RequestTranslator
from providers.canonical.errors import Unsupported
from providers.catalogue import ADAPTERS, build_provider
from providers.dialects.catalogue import DIALECTS
from tests.laws.asking import MEDIA, nothing
from tests.laws.engine_fields import HI, TOOL, prepare

AT = "http://127.0.0.1:1"
PROMPT = {"model": "m", "prompt": "Once upon"}


def raw(**fields: Any) -> bytes:
    return json.dumps({**PROMPT, **fields}).encode()


@pytest.mark.parametrize("adapter", ["vllm", "lmdeploy", "tgi", "ollama", "llamacpp", "llamacpp_python"])
def test_a_raw_prompt_of_a_chat_goes_on_for_as_long_as_a_chat_would(adapter: str):
    """Completions of vLLM, LMDeploy and llama-cpp-python write 16 tokens where nobody says how many."""
    provider = build_provider(adapter, adapter, {}, AT)
    sent = json.loads(prepare(provider, "openai_chat", raw()).raw)
    assert {**PROMPT, "max_tokens": None}.items() <= sent.items() and sent.keys() <= {*PROMPT, "max_tokens", "stream", "stream_options"}
    assert json.loads(prepare(provider, "openai_chat", raw(max_tokens=7)).raw)["max_tokens"] == 7
    assert "max_tokens" not in json.loads(prepare(provider, "openai_completions", raw()).raw)


def test_sglang_is_not_asked_for_a_raw_prompt_without_a_limit_which_it_would_set_itself():
    sglang = build_provider("sglang", "sglang", {}, AT)
    with pytest.raises(Unsupported) as refused:
        prepare(sglang, "openai_chat", raw())
    assert refused.value.param == "max_tokens"
    dropped = prepare(sglang, "openai_chat", raw(), drop="max_tokens".__eq__)
    assert (json.loads(dropped.raw), dropped.dropped) == ({**PROMPT, "rid": "ID"}, ["max_tokens"])
    for field in ("max_tokens", "max_completion_tokens"):
        assert json.loads(prepare(sglang, "openai_chat", raw(**{field: 7})).raw)["max_tokens"] == 7
    assert "max_tokens" not in json.loads(prepare(sglang, "openai_completions", raw()).raw)


@pytest.mark.parametrize("adapter", ["sglang", "lmdeploy", "tgi", "ollama"])
@pytest.mark.parametrize(
    ("field", "said"), [("tools", [TOOL]), ("tool_choice", "required"), ("top_logprobs", 2), ("reasoning_effort", "low")], ids=str
)
def test_what_chats_alone_have_is_not_sent_to_completions(adapter: str, field: str, said: Any):
    provider = build_provider(adapter, adapter, {}, AT)
    with pytest.raises(Unsupported) as refused:
        prepare(provider, "openai_completions", raw(**{field: said}))
    assert refused.value.param == field
    assert field not in json.loads(prepare(provider, "openai_completions", raw(**{field: said}), drop=True).raw)


@pytest.mark.parametrize(
    ("adapter", "dialect"),
    [*((name, "openai_completions") for name in ("sglang", "tgi", "ollama")), ("tgi", "openai_chat"), ("mini_sglang", "openai_chat")],
)
def test_of_two_words_for_a_limit_null_says_none(adapter: str, dialect: str):
    provider = build_provider(adapter, adapter, {}, AT)
    asked = PROMPT if dialect == "openai_completions" else {"model": "m", "messages": HI}
    for said in ({"max_tokens": 7, "max_completion_tokens": None}, {"max_completion_tokens": 7, "max_tokens": None}):
        sent = json.loads(prepare(provider, dialect, json.dumps({**asked, **said}).encode()).raw)
        assert sent["max_tokens"] == 7 and "max_completion_tokens" not in sent
    sent = json.loads(prepare(provider, dialect, json.dumps({**asked, "max_completion_tokens": None}).encode()).raw)
    assert sent.get("max_tokens") is None and "max_completion_tokens" not in sent


@pytest.mark.parametrize("adapter", sorted(ADAPTERS.keys() - {"auto"}))  # of which nobody knows yet
@pytest.mark.parametrize("constraint", [{"guided_regex": "a+"}, {"structured_outputs": {"choice": ["a"]}}], ids=["regex", "choice"])
def test_a_constraint_on_a_completion_is_obeyed_or_refused_by_its_name(adapter: str, constraint: dict[str, Any]):
    provider = build_provider(adapter, adapter, {}, AT)
    if "openai_completions" not in provider.spoken_dialects:
        return
    try:
        prepared = prepare(provider, "openai_completions", raw(**constraint))
    except Unsupported as refused:
        assert refused.param == next(iter(constraint))
    else:
        assert prepared.constraint_plan is not None and "openai_completions" in provider.constrained_dialects


def test_no_two_attempts_have_one_id_and_none_begins_with_another():
    """SGLang refuses an id that it still works on, and aborts all that begin with the one that it is told."""
    sglang = build_provider("sglang", "sglang", {}, AT)
    body = json.dumps({"model": "m", "messages": HI}).encode()
    chat = DIALECTS["openai_chat"]
    asked = RequestTranslator(chat.parse_request(body), body, chat, MEDIA, nothing, inference_id="ID")
    attempts = [asked.edit_request(sglang, Target("sglang", "m")) for _ in range(12)]
    ids = [attempt.id for attempt in attempts if attempt is not None]
    assert ids[0] == "ID" and len(set(ids)) == 12
    assert not any(one != other and str(one).startswith(str(other)) for one in ids for other in ids)
    assert [json.loads(attempt.raw)["rid"] for attempt in attempts if attempt is not None] == ids


def test_what_takes_no_id_is_given_none():
    vllm = build_provider("vllm", "vllm", {}, AT)
    assert prepare(vllm, "openai_chat", json.dumps({"model": "m", "messages": HI}).encode()).id is None


@pytest.mark.parametrize("adapter", ["vllm", "sglang", "lmdeploy", "tgi", "llamacpp", "llamacpp_python"])
def test_of_tools_and_a_constraint_either_may_be_let_go(adapter: str):
    provider = build_provider(adapter, adapter, {}, AT)
    named = {"type": "function", "function": {"name": TOOL["function"]["name"]}}
    both = {"messages": HI, "tools": [TOOL], "tool_choice": named, "guided_regex": "[a-c]+"}
    body = json.dumps({"model": "m", **both}).encode()
    with pytest.raises(Unsupported):
        prepare(provider, "openai_chat", body)
    calling = prepare(provider, "openai_chat", body, drop="guided_regex".__eq__)
    assert (calling.dropped, calling.constraint_plan) == (["guided_regex"], None)
    assert json.loads(calling.raw)["tools"] and not {"guided_regex", "regex", "grammar", "response_format"} & json.loads(calling.raw).keys()
    obeying = prepare(provider, "openai_chat", body, drop="tools".__eq__)
    assert obeying.dropped == ["tools"] and obeying.constraint_plan is not None
    assert "tools" not in json.loads(obeying.raw)
