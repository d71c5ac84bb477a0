"""A raw prompt as a request to generate, and what it cannot say.

Sources: router/src/lib.rs (GenerateParameters) and validation.rs of TGI 3.3; docs.djl.ai, "LMI handlers Inference API Schema";
read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.chat import ENGINE_FIELDS, ChatRequest
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import NULL, Body
from providers.dialect import DropPolicy
from providers.dialects.tgi_generate.output_format import write_grammar


class GenerateApi(Struct, frozen=True):
    """What one of the two calls things. `engine`: words of engines that it has too. `grammar`: whether it can be held to one.

    `top_tokens`: how many other tokens it may be asked to tell in each one's place. `no_limit`: what has it write as long as it can.
    `least`: how much it writes where nobody says.
    """

    name: str
    stop_field: str
    top_tokens_field: str | None
    supports_grammar: bool
    supports_frequency_penalty: bool
    unlimited: Raw | None
    default_max_tokens: int
    engine_fields: Mapping[str, str]


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
# Those alone that it takes whichever engine is in the container: what another engine has, this one may pass over in silence.
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

# Whose callers mean the engine's own default, where they say no limit; all others, as long as an answer would be.
_COMPLETIONS_DIALECT = "openai_completions"

# Values that ask for nothing: it does so anyway.
_NEUTRAL_VALUES: Mapping[str, tuple[Any, ...]] = {
    "echo": (False,),
    "suffix": ("",),
    "best_of": (1,),
    "top_a": (0,),
    "tfs_z": (1,),
    "typical_p": (1,),
    "min_p": (0,),
    "length_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "use_beam_search": (False,),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "priority": (0,),
    "repetition_penalty": (1,),
}
_HINT_FIELDS = frozenset({"prompt_cache_retention", "guided_decoding_backend"})


def write_request(chat: ChatRequest, drop_policy: DropPolicy, api: GenerateApi) -> Body:
    """Raises Unsupported for messages."""
    if chat.prompt is None:
        raise Unsupported(f"Messages cannot be asked of {api.name}: it takes a raw prompt.", param="messages")
    parameters = {"return_full_text": False, "details": True, **_sampling(chat, drop_policy), **_token_parameters(chat, drop_policy, api)}
    if chat.output is not None:
        try:
            if not api.supports_grammar:
                raise Unsupported("it has no word for what constrains an answer.")
            parameters["grammar"] = write_grammar(chat.output)
        except Unsupported as refusal:
            drop_policy.drop_or_refuse("output", refusal.message)
    parameters |= _engine_fields(chat, drop_policy, api)
    _check_unsupported(chat, drop_policy, api)
    return Body(inputs=chat.prompt, parameters={key: value for key, value in parameters.items() if value is not None})


def _sampling(chat: ChatRequest, drop_policy: DropPolicy) -> dict[str, Any]:
    """Both take the likeliest token unless told to sample, which a caller of ours means who does not say the contrary.

    At the bounds of a range, where a number asks for nothing, they refuse it.
    """
    if chat.seed is not None and chat.seed < 0:
        drop_policy.drop_or_refuse("seed", "it takes numbers of 0 and more.")
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
            drop_policy.drop_or_refuse("max_tokens", f"it needs one: it writes {api.default_max_tokens} tokens where nobody says how many.")
        fields["max_new_tokens"] = api.unlimited
    if api.supports_frequency_penalty:
        fields["frequency_penalty"] = chat.frequency_penalty or None
    elif chat.frequency_penalty:
        drop_policy.drop_or_refuse("frequency_penalty", f"{api.name} has no such field for every engine.")
    if chat.logprobs and chat.top_logprobs:
        if api.top_tokens_field is None:
            drop_policy.drop_or_refuse("top_logprobs", "it tells the chance of the chosen token alone.")
        else:
            fields[api.top_tokens_field] = chat.top_logprobs
    return fields


def _engine_fields(chat: ChatRequest, drop_policy: DropPolicy, api: GenerateApi) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in chat.extra.items():
        decoded = msgspec.json.decode(value)
        if decoded is None or decoded in _NEUTRAL_VALUES.get(key, ()):
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


def _check_unsupported(chat: ChatRequest, drop_policy: DropPolicy, api: GenerateApi) -> None:
    reason = f"{api.name} has no such field."
    if chat.n is not None and chat.n > 1:
        drop_policy.drop_or_refuse("n", "it gives one answer.")
    if chat.presence_penalty:
        drop_policy.drop_or_refuse("presence_penalty", reason)
    if chat.logit_bias is not None and chat.logit_bias != Raw(b"{}"):
        drop_policy.drop_or_refuse("logit_bias", reason)
    for field in ("tools", "tool_choice", "thinking", "verbosity"):
        if getattr(chat, field) not in (None, ()):
            drop_policy.drop_or_refuse(field, reason)
    for field in ("user", "safety_identifier", "metadata", "service_tier", "store", "cache_key"):
        if getattr(chat, field) is not None:
            drop_policy.drop_hint(field)
