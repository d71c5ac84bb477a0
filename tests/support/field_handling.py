"""Every field of a chat request, and checks of what an adapter does with each: send, translate, refuse, drop or leave out."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from app.domain.routing import Target
from app.gateway.request_translation.candidate_dialects import candidate_dialects
from app.gateway.request_translation.edit_request import edit_request
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.translate_chat import translate_chat
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.adapters.provider import Provider
from providers.canonical.errors import Unsupported
from providers.catalogue import DIALECTS
from providers.structured_output import read_constraint
from tests.support.request_translation import MEDIA, drop_everything, drop_nothing, make_source

HI: Any = [{"role": "user", "content": "Hello!"}]
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}

# OpenAI's fields, those of engines, and mini-sglang's, each with a value that asks for something.
FIELD_VALUES: Mapping[str, Any] = {
    "audio": {"voice": "alloy", "format": "wav"},
    "frequency_penalty": 0.5,
    "function_call": {"name": "now"},
    "functions": [{"name": "now"}],
    "logit_bias": {"1": 5},
    "logprobs": True,
    "max_completion_tokens": 7,
    "max_tokens": 7,
    "metadata": {"a": "b"},
    "modalities": ["text", "audio"],
    "n": 2,
    "parallel_tool_calls": False,
    "prediction": {"type": "content", "content": "x"},
    "presence_penalty": 0.5,
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "reasoning_effort": "low",
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
    "safety_identifier": "s",
    "seed": 3,
    "service_tier": "flex",
    "stop": "END",
    "store": True,
    "temperature": 0.5,
    "tool_choice": "required",
    "tools": [TOOL],
    "top_logprobs": 2,
    "top_p": 0.5,
    "user": "u",
    "verbosity": "low",
    "web_search_options": {"search_context_size": "low"},
    "top_k": 5,
    "min_p": 0.1,
    "top_a": 0.1,
    "typical_p": 0.9,
    "tfs_z": 0.9,
    "repetition_penalty": 1.5,
    "length_penalty": 2,
    "no_repeat_ngram_size": 3,
    "min_tokens": 3,
    "min_new_tokens": 3,
    "do_preprocess": False,
    "ignore_eos": True,
    "stop_token_ids": [1],
    "bad_words": ["no"],
    "include_stop_str_in_output": True,
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "truncate_prompt_tokens": 5,
    "allowed_token_ids": [1],
    "best_of": 2,
    "use_beam_search": True,
    "chat_template": "{{ x }}",
    "chat_template_kwargs": {"a": 1},
    "mm_processor_kwargs": {"a": 1},
    "add_generation_prompt": False,
    "continue_final_message": True,
    "priority": 1,
    "cache_salt": "s",
    "vllm_xargs": {"a": 1},
    "lora_path": "x",
    "session_id": "x",
    "separate_reasoning": False,
    "enable_thinking": False,
    "guided_whitespace_pattern": "[ ]?",
    "guided_decoding_backend": "xgrammar",
    "guided_json": {"type": "object"},
    "guided_regex": "[a-c]+",
    "guided_choice": ["yes", "no"],
    "guided_grammar": 'root ::= "a"',
    "structural_tag": {"format": {"type": "any_text"}},
    "structured_outputs": {"json": {"type": "object"}},
    "return_token_ids": True,
    "regex": "[a-c]+",
    "ebnf": 'root ::= "a"',
    "grammar": 'root ::= "a"',
    "json_schema": {"type": "object"},
}

# Values that ask for nothing, so that leaving them out needs no report.
NEUTRAL_FIELD_VALUES: Mapping[str, Any] = {
    "n": 1,
    "stop": [],
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "logprobs": False,
    "logit_bias": {},
    "tools": [],
    "top_k": -1,
    "min_p": 0,
    "repetition_penalty": 1,
    "best_of": 1,
    "use_beam_search": False,
    "ignore_eos": False,
    "min_tokens": 0,
    "min_new_tokens": 0,
    "do_preprocess": True,
    "return_token_ids": False,
    "session_id": -1,
    "skip_special_tokens": True,
    "length_penalty": 1,
    "response_format": {"type": "text"},
    "top_p": 1,
}


def translate_chat_fields(
    provider: Provider, fields: Mapping[str, Any], *, drop: Callable[[str], bool] | bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The upstream body for an OpenAI chat request, and the dropped fields. Raises Unsupported or OperationNotSupported."""
    translated = _translate_fields(provider, fields, drop=drop)
    return json.loads(translated.raw), translated.dropped


def emulated_chat_fields(provider: Provider, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields of an OpenAI chat request that the gateway honours itself. Raises as translate_chat_fields() does."""
    emulation = _translate_fields(provider, fields).emulation
    return () if emulation is None else emulation.fields


def _translate_fields(provider: Provider, fields: Mapping[str, Any], *, drop: Callable[[str], bool] | bool = False) -> TranslatedRequest:
    raw = json.dumps({"model": "m", "messages": HI, **fields}).encode()
    return translate_body(provider, "openai_chat", raw, drop=drop)


def translate_body(
    provider: Provider, caller: str, raw: bytes, *, drop: Callable[[str], bool] | bool = False, model: str = "m"
) -> TranslatedRequest:
    dialect = DIALECTS[caller]
    request = dialect.parse_request(raw)
    may_drop = drop if callable(drop) else drop_everything if drop else drop_nothing
    source = make_source(request, raw, dialect, MEDIA, may_drop, constraint=read_constraint(caller, request.body), inference_id="ID")
    target = Target(provider.configured_as, model)
    (target_dialect,) = candidate_dialects(source, provider, provider.spoken_dialects)[:1]
    edited = edit_request(source, Recipient(provider, target)) if target_dialect is dialect else None
    if edited is not None:
        return edited
    translation = translate_chat(source, target_dialect, Recipient(provider, target))
    try:
        translation.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("no media has to be fetched")


# "refused": by name, or dropped and reported with permission. "emulated": left out, and honoured by the gateway. "hint": dropped and
# reported. "spared": silently left out, because the engine does so anyway. "sent": unchanged. A mapping: what is sent in its place.
Handling = Mapping[str, Any] | str


# How the older `functions` are sent: as tools.
FUNCTIONS_AS_TOOLS: Mapping[str, Any] = {"tools": [{"type": "function", "function": {"name": "now"}}]}


def assert_fields_are_handled(provider: Provider, expected: Mapping[str, Handling]) -> None:
    """Compares what the adapter does with every field with a table, and reports all differences at once."""
    differences = {
        field: f"expected {handling!r}, but {difference}"
        for field, handling in expected.items()
        if (difference := _handling_difference(provider, field, handling)) is not None
    }
    assert differences == {}, differences


def _handling_difference(provider: Provider, field: str, handling: Handling) -> str | None:
    fields = {field: FIELD_VALUES[field], **_REQUIRED_FIELDS.get(field, {})}
    body_without_field = json.loads(msgspec.json.encode(translate_chat_fields(provider, _REQUIRED_FIELDS.get(field, {}))[0]))
    try:
        body, dropped = translate_chat_fields(provider, fields)
    except Unsupported as refused:
        if handling != "refused" or refused.param is None or refused.param.partition(".")[0] != field:
            return f"refused as {refused.param}: {refused.message}"
        body, dropped = translate_chat_fields(provider, fields, drop=True)
        is_dropped = [name.partition(".")[0] for name in dropped] == [field] and body == body_without_field
        return None if is_dropped else f"with permission to drop it, {dropped} was dropped and {body} sent"
    if (emulated_chat_fields(provider, fields) == (field,)) != (handling == "emulated"):
        return f"{'not ' if handling == 'emulated' else ''}emulated"
    if handling == "refused":
        return f"{body} was sent"
    if dropped != ([field] if handling == "hint" else []):
        return f"{dropped} was dropped"
    if isinstance(handling, Mapping):
        is_as_expected = handling.items() <= body.items() and (field not in body or field in handling)
    elif handling == "sent":
        is_as_expected = body == {**body_without_field, field: FIELD_VALUES[field]}
    else:
        is_as_expected = body == body_without_field
    return None if is_as_expected else f"{body} was sent"


# Fields without which a field means nothing.
_REQUIRED_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "top_logprobs": {"logprobs": True},
    "tool_choice": {"tools": [TOOL]},
    "parallel_tool_calls": {"tools": [TOOL]},
}
