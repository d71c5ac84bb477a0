"""A raw prompt as a request to generate; what the API cannot express is dropped or refused.

Sources: router/src/lib.rs (GenerateParameters) and validation.rs of TGI 3.3; docs.djl.ai, "LMI handlers Inference API Schema";
read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import ChatRequest
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import NULL, Body
from providers.dialects.tgi_generate.output_format import write_grammar
from providers.drop_policy import DropPolicy
from providers.fields import ENGINE_FIELDS, FIELDS
from providers.unsupported import check_unsupported


class GenerateApi(Struct, frozen=True):
    """The fields of one of the two APIs."""

    name: str
    stop_field: str
    top_tokens_field: str | None  # the number of alternative tokens to report; None: it reports none
    supports_grammar: bool
    supports_frequency_penalty: bool
    unlimited: Raw | None  # the value of `max_new_tokens` for no limit; None: it has none
    default_max_tokens: int  # the limit of a request without one
    engine_fields: Mapping[str, str]  # fields of engines that it has too, with its names for them


TGI = GenerateApi(
    name="TGI's generate",
    stop_field="stop",
    top_tokens_field="top_n_tokens",
    supports_grammar=True,
    supports_frequency_penalty=True,
    unlimited=NULL,
    default_max_tokens=100,
    engine_fields={"repetition_penalty": "repetition_penalty", "typical_p": "typical_p", "truncate_prompt_tokens": "truncate"},
)
# Only the fields that work with any engine in the container: an engine may silently ignore those of another.
LMI = GenerateApi(
    name="LMI's schema for prompts",
    stop_field="stop_sequences",
    top_tokens_field=None,
    supports_grammar=False,
    supports_frequency_penalty=False,
    unlimited=None,
    default_max_tokens=30,
    engine_fields={"repetition_penalty": "repetition_penalty"},
)

# Callers of this dialect who set no limit expect the engine's default; all others expect a complete answer.
_COMPLETIONS_DIALECT = "openai_completions"

_MISSING_FIELDS = ("presence_penalty", "logit_bias", "tools", "tool_choice", "thinking", "verbosity")
_HINT_FIELDS = frozenset({"prompt_cache_retention", "guided_decoding_backend"})


def write_request(chat: ChatRequest, drop_policy: DropPolicy, api: GenerateApi) -> Body:
    """Raises Unsupported for a chat of messages."""
    if chat.prompt is None:
        raise Unsupported(f"{api.name} takes a raw prompt and no messages.", param="messages")
    parameters = {"return_full_text": False, "details": True, **_sampling(chat, drop_policy), **_token_parameters(chat, drop_policy, api)}
    if chat.output is not None:
        try:
            if not api.supports_grammar:
                raise Unsupported("it has no field for a constraint on the answer.")
            parameters["grammar"] = write_grammar(chat.output)
        except Unsupported as refusal:
            drop_policy.drop_or_refuse("output", refusal.message)
    parameters |= _engine_fields(chat, drop_policy, api)
    no_such_field = f"{api.name} has no such field."
    check_unsupported(chat, drop_policy, {"n": "it gives one answer.", **dict.fromkeys(_MISSING_FIELDS, no_such_field)})
    return Body(inputs=chat.prompt, parameters={key: value for key, value in parameters.items() if value is not None})


def _sampling(chat: ChatRequest, drop_policy: DropPolicy) -> dict[str, Any]:
    """Both APIs take the likeliest token unless `do_sample` is set, while a caller expects sampling unless the temperature is 0.

    Both refuse a neutral value at the bound of a range, such as a top_p of 1.
    """
    if chat.seed is not None and chat.seed < 0:
        drop_policy.drop_or_refuse("seed", "it takes seeds from 0 on.")
    greedy = chat.temperature == 0
    return {
        "do_sample": not greedy,
        "temperature": None if greedy else chat.temperature,
        "top_p": None if chat.top_p is None or chat.top_p >= 1 else chat.top_p,
        "top_k": None if chat.top_k is None or chat.top_k < 1 else chat.top_k,
        "seed": None if chat.seed is None or chat.seed < 0 else chat.seed,
    }


def _token_parameters(chat: ChatRequest, drop_policy: DropPolicy, api: GenerateApi) -> dict[str, Any]:
    fields: dict[str, Any] = {"max_new_tokens": chat.max_tokens, api.stop_field: chat.stop or None}
    if chat.max_tokens is None and chat.origin != _COMPLETIONS_DIALECT:
        if api.unlimited is None:
            drop_policy.drop_or_refuse("max_tokens", f"it requires a limit, and writes {api.default_max_tokens} tokens without one.")
        fields["max_new_tokens"] = api.unlimited
    if api.supports_frequency_penalty:
        fields["frequency_penalty"] = chat.frequency_penalty or None
    elif chat.frequency_penalty:
        drop_policy.drop_or_refuse("frequency_penalty", f"{api.name} has no such field for every engine.")
    if chat.logprobs and chat.top_logprobs:
        if api.top_tokens_field is None:
            drop_policy.drop_or_refuse("top_logprobs", "it reports the probability of the chosen token only.")
        else:
            fields[api.top_tokens_field] = chat.top_logprobs
    return fields


def _engine_fields(chat: ChatRequest, drop_policy: DropPolicy, api: GenerateApi) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in chat.extra.items():
        decoded = msgspec.json.decode(value)
        if decoded is None or (key in FIELDS and decoded in FIELDS[key].neutral_values):
            continue
        if key in api.engine_fields:
            fields[api.engine_fields[key]] = value
        elif key in _HINT_FIELDS:
            drop_policy.drop_hint(key)
        elif key in ENGINE_FIELDS:
            if decoded not in ([], "", {}):
                drop_policy.drop_or_refuse(key, f"{api.name} has no such field.")
        else:
            drop_policy.drop_extra_field(key, value, f"{api.name} has no such field.")
    return fields
