"""A raw prompt as a request to Llama: it has three parameters, and no others."""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import ENGINE_FIELDS, ChatRequest
from providers.canonical.raw_json import Body
from providers.dialect import DropPolicy

_MAX_TOKENS = 2048
_NO_SUCH_FIELD = "Bedrock's Llama has no such field."
# By name, what asks for nothing.
_NEUTRAL_VALUES: dict[str, tuple[Any, ...]] = {
    "tools": ((),),
    "tool_choice": (None,),
    "parallel_calls": (None, True),
    "output": (None,),
    "thinking": (None,),
    "top_k": (None, -1, 0),
    "seed": (None,),
    "n": (None, 1),
    "stop": ((),),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "logprobs": (None, False),
    "top_logprobs": (None, 0),
    "logit_bias": (None, Raw(b"{}")),
}
_HINT_FIELDS = ("user", "safety_identifier", "metadata", "service_tier", "store", "cache_key", "verbosity")
_EMPTY_VALUES: tuple[Any, ...] = (None, False, 0, "", [], {})


def write_request(chat: ChatRequest, drop_policy: DropPolicy) -> Body:
    """`prompt` is what there is: chats do not come here."""
    max_tokens = chat.max_tokens
    if max_tokens is not None and not 1 <= max_tokens <= _MAX_TOKENS:
        drop_policy.drop_or_refuse("max_tokens", f"it writes from 1 to {_MAX_TOKENS} tokens.")
        max_tokens = None
    temperature = chat.temperature
    if temperature is not None and temperature > 1:
        drop_policy.drop_or_refuse("temperature", "it takes temperatures from 0 to 1.")
        temperature = None
    fields = {"max_gen_len": max_tokens, "temperature": temperature, "top_p": chat.top_p}
    for field, neutral_values in _NEUTRAL_VALUES.items():
        if getattr(chat, field) not in neutral_values:
            drop_policy.drop_or_refuse(field, _NO_SUCH_FIELD)
    for field in _HINT_FIELDS:
        if getattr(chat, field) is not None:
            drop_policy.drop_hint(field)
    for key, value in chat.extra.items():
        if msgspec.json.decode(value) in _EMPTY_VALUES:
            continue
        if key in ENGINE_FIELDS:
            drop_policy.drop_or_refuse(key, _NO_SUCH_FIELD)
        else:
            drop_policy.drop_extra_field(key, value, _NO_SUCH_FIELD)
    parameters = {key: value for key, value in fields.items() if value is not None}
    return Body(model=chat.model, prompt=chat.prompt or "", **parameters)
