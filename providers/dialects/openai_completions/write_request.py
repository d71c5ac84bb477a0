"""Writes a canonical request as a completion request.

Source: https://platform.openai.com/docs/api-reference/completions/create, read 2026-11.
"""

from providers import structured_output
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.dialects.openai_completions.dialect_name import DIALECT
from providers.dialects.openai_completions.read_request import SAME_FIELDS
from providers.drop_policy import DropPolicy
from providers.fields import ENGINE_FIELDS

# Values of chat fields that request nothing.
_NEUTRAL_VALUES = (None, (), False)


def write_request(chat: ChatRequest, drop_policy: DropPolicy) -> Body:
    """The request. Raises Unsupported for messages: a completion takes only a raw prompt."""
    if chat.prompt is None:
        raise Unsupported("An API for completions cannot take messages: it takes a raw prompt.", param="messages")
    for field in ("tools", "tool_choice", "parallel_calls", "thinking", "verbosity"):
        if getattr(chat, field) not in _NEUTRAL_VALUES:
            drop_policy.drop_or_refuse(field, "a completion has no such field.")
    for field in ("safety_identifier", "service_tier", "store", "cache_key"):
        if getattr(chat, field) is not None:
            drop_policy.drop_hint(field)
    body = Body(model=chat.model, prompt=chat.prompt)
    for field in SAME_FIELDS:
        value = getattr(chat, field)
        if value is not None:
            body[field] = value
    if chat.stop:
        body["stop"] = list(chat.stop)
    if chat.logprobs:
        body["logprobs"] = chat.top_logprobs or 0
    if chat.logit_bias is not None:
        body["logit_bias"] = chat.logit_bias
    if chat.output is not None:
        body.update(structured_output.write_structured_outputs(chat.output))
    for key, value in chat.extra.items():
        if chat.origin == DIALECT or key in ENGINE_FIELDS:
            body[key] = value
        else:
            drop_policy.drop_extra_field(key, value, "a completion has no such field.")
    return body
