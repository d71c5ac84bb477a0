"""A raw prompt as a request to Llama: it has three parameters, and no others."""

from typing import Any

import msgspec
from msgspec import Raw

from providers.chat import ENGINE_WORDS, ChatRequest
from providers.dialect import Concessions
from providers.wire import Body

_LONGEST = 2048
_WHY = "Bedrock's Llama has no such field."
# By name, what asks for nothing.
_IDLE: dict[str, tuple[Any, ...]] = {
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
_HINTS = ("user", "safety_identifier", "metadata", "service_tier", "store", "cache_key", "verbosity")
_NOTHING: tuple[Any, ...] = (None, False, 0, "", [], {})


def write_request(chat: ChatRequest, concessions: Concessions) -> Body:
    """`prompt` is what there is: chats do not come here."""
    most = chat.max_tokens
    if most is not None and not 1 <= most <= _LONGEST:
        concessions.without("max_tokens", f"it writes from 1 to {_LONGEST} tokens.")
        most = None
    temperature = chat.temperature
    if temperature is not None and temperature > 1:
        concessions.without("temperature", "it takes temperatures from 0 to 1.")
        temperature = None
    fields = {"max_gen_len": most, "temperature": temperature, "top_p": chat.top_p}
    for field, idle in _IDLE.items():
        if getattr(chat, field) not in idle:
            concessions.without(field, _WHY)
    for field in _HINTS:
        if getattr(chat, field) is not None:
            concessions.hint(field)
    for key, value in chat.extra.items():
        if msgspec.json.decode(value) in _NOTHING:
            continue
        if key in ENGINE_WORDS:
            concessions.without(key, _WHY)
        else:
            concessions.extra(key, value, _WHY)
    said = {key: value for key, value in fields.items() if value is not None}
    return Body(model=chat.model, prompt=chat.prompt or "", **said)
