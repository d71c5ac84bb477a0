"""A raw prompt as a request to Llama, which has three parameters and no others."""

from collections.abc import Mapping

from providers.canonical.chat import ChatRequest
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.fields import drop_extra_fields
from providers.unsupported import CHAT_HINT_FIELDS, check_unsupported

_MAX_TOKENS = 2048
_NO_SUCH_FIELD = "Bedrock's Llama has no such field."
_UNSUPPORTED_FIELDS: Mapping[str, str] = dict.fromkeys(
    (
        *("tools", "tool_choice", "parallel_calls", "output", "thinking", "top_k", "seed", "n", "stop"),
        *("frequency_penalty", "presence_penalty", "logprobs", "top_logprobs", "logit_bias"),
    ),
    _NO_SUCH_FIELD,
)


def write_request(chat: ChatRequest, drop_policy: DropPolicy) -> Body:
    """Writes `chat.prompt`: the host sends chats to Converse."""
    max_tokens = chat.max_tokens
    if max_tokens is not None and not 1 <= max_tokens <= _MAX_TOKENS:
        drop_policy.drop_or_refuse("max_tokens", f"it writes from 1 to {_MAX_TOKENS} tokens.")
        max_tokens = None
    temperature = chat.temperature
    if temperature is not None and temperature > 1:
        drop_policy.drop_or_refuse("temperature", "it takes temperatures from 0 to 1.")
        temperature = None
    fields = {"max_gen_len": max_tokens, "temperature": temperature, "top_p": chat.top_p}
    check_unsupported(chat, drop_policy, _UNSUPPORTED_FIELDS, (*CHAT_HINT_FIELDS, "verbosity"))
    drop_extra_fields(chat.extra, drop_policy, _NO_SUCH_FIELD)
    parameters = {key: value for key, value in fields.items() if value is not None}
    return Body(model=chat.model, prompt=chat.prompt or "", **parameters)
