"""A chat as a request to Cohere's /v2/chat; what the API cannot express is dropped or refused.

Source: https://docs.cohere.com/reference/chat, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import ChatRequest, Thinking
from providers.canonical.errors import Unsupported
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import Body
from providers.dialects.cohere_chat.messages import write_messages
from providers.dialects.cohere_chat.output_format import write_format
from providers.dialects.cohere_chat.tools import write_tools
from providers.drop_policy import DropPolicy
from providers.fields import drop_extra_fields
from providers.unsupported import check_unsupported

# Cohere's own fields, which callers of any dialect may send, and a field of engines that it has too (`priority`).
_NATIVE_FIELDS = frozenset({"safety_mode", "citation_options", "strict_tools", "raw_prompting", "priority"})
_NO_SUCH_FIELD = "Cohere's chat has no such field."
_UNSUPPORTED_FIELDS = {
    "n": "it gives one answer.",
    "top_logprobs": "it reports only the tokens that it chose.",
    "logit_bias": _NO_SUCH_FIELD,
    "verbosity": _NO_SUCH_FIELD,
}
_MAX_STOPS = 5
_MAX_K = 500
# The range of `p`. Its default is 0.75, so even a top_p of 1 has to be sent.
_MIN_P, _MAX_P = 0.01, 0.99


def write_request(chat: ChatRequest, drop_policy: DropPolicy) -> Body:
    return _RequestWriter(chat, drop_policy).write_body()


class _RequestWriter:
    def __init__(self, chat: ChatRequest, drop_policy: DropPolicy) -> None:
        self._chat = chat
        self._drop_policy = drop_policy

    def write_body(self) -> Body:
        chat, drop_policy = self._chat, self._drop_policy
        if chat.prompt is not None:
            drop_policy.drop_or_refuse("prompt", "its chat cannot continue a raw prompt.")
        format = self._response_format()
        messages, documents = write_messages(chat, drop_policy, constrained=format is not None)
        body = Body(model=chat.model, messages=messages)
        if documents:
            body["documents"] = documents
        fields: dict[str, Any] = {
            **write_tools(chat, drop_policy, constrained=format is not None),
            "response_format": format,
            "thinking": self._thinking(chat.thinking),
            "max_tokens": chat.max_tokens,
            "stop_sequences": self._stops(),
            "temperature": chat.temperature,
            "p": self._top_p(),
            "k": self._top_k(),
            "seed": self._seed(),
            "frequency_penalty": self._penalty("frequency_penalty", chat.frequency_penalty),
            "presence_penalty": self._penalty("presence_penalty", chat.presence_penalty),
            "logprobs": chat.logprobs or None,
        }
        body.update({key: value for key, value in fields.items() if value is not None})
        check_unsupported(chat, drop_policy, _UNSUPPORTED_FIELDS)
        self._write_extra(body)
        return body

    def _response_format(self) -> dict[str, Any] | None:
        if self._chat.output is None:
            return None
        try:
            return write_format(self._chat.output)
        except Unsupported as refusal:
            self._drop_policy.drop_or_refuse("output", refusal.message)
            return None

    def _thinking(self, thinking: Thinking | None) -> dict[str, Any] | None:
        """Cohere takes a budget or leaves the amount to the model; it has no efforts."""
        if thinking is None:
            return None
        if thinking.summary is not None:
            self._drop_policy.drop_hint("thinking.summary")
        if thinking.effort == "none":
            return {"type": "disabled"}
        if thinking.effort is not None:
            self._drop_policy.drop_hint("thinking.effort")
        if thinking.budget_tokens is not None:
            return {"type": "enabled", "token_budget": thinking.budget_tokens}
        return {"type": "enabled"}

    def _stops(self) -> tuple[str, ...] | None:
        stops = self._chat.stop
        if len(stops) > _MAX_STOPS:
            self._drop_policy.drop_or_refuse("stop", f"it takes at most {_MAX_STOPS} stop sequences, not {len(stops)}.")
            return None
        return stops or None

    def _top_p(self) -> float | None:
        top_p = self._chat.top_p
        if top_p is None or _MIN_P <= top_p <= _MAX_P:
            return top_p
        self._drop_policy.drop_hint("top_p")
        return min(max(top_p, _MIN_P), _MAX_P)

    def _top_k(self) -> int | None:
        """Other engines write -1 for "all tokens", Cohere 0."""
        top_k = self._chat.top_k
        if top_k is not None and top_k > _MAX_K:
            return self._drop_policy.drop_or_refuse("top_k", f"it takes at most {_MAX_K}, not {top_k}.")
        return None if top_k is None else max(0, top_k)

    def _seed(self) -> int | None:
        seed = self._chat.seed
        if seed is not None and seed < 0:
            return self._drop_policy.drop_or_refuse("seed", "its seeds must not be negative.")
        return seed

    def _penalty(self, field: str, penalty: float | None) -> float | None:
        if penalty is not None and not 0 <= penalty <= 1:
            return self._drop_policy.drop_or_refuse(field, f"it takes penalties from 0 to 1, not {penalty:g}.")
        return penalty

    def _write_extra(self, body: Body) -> None:
        native_keys = {*_NATIVE_FIELDS, "documents"} if "thinking" in body else {*_NATIVE_FIELDS, "documents", "thinking"}
        for key in native_keys & self._chat.extra.keys():
            value = self._chat.extra[key]
            match key:
                case "documents":
                    body[key] = [*msgspec.json.decode(value, type=list[Raw]), *body.get(key, ())]
                case "thinking":
                    body[key] = as_raw(value)
                case _:
                    body[key] = value
        drop_extra_fields(self._chat.extra, self._drop_policy, _NO_SUCH_FIELD, native_keys)
