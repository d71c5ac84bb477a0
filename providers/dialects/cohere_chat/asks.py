"""A chat as a request to Cohere's /v2/chat, and what it cannot say of it.

Source: https://docs.cohere.com/reference/chat, read 2026-11.
"""

from typing import Any

import msgspec
from msgspec import Raw

from providers.chat import ChatRequest, Thinking
from providers.dialect import Concessions
from providers.dialects.cohere_chat.formats import write_format
from providers.dialects.cohere_chat.messages import write_messages
from providers.dialects.cohere_chat.tools import write_tools
from providers.errors import Unsupported
from providers.idle import concede_extra
from providers.rest import as_raw
from providers.wire import Body

# Its own words, which callers of any dialect may send beside theirs, and a word of engines that it has too.
_OWN = frozenset({"safety_mode", "citation_options", "strict_tools", "raw_prompting", "priority"})
_WHY = "Cohere's chat has no such field."
_MOST_STOPS = 5
_MOST_K = 500
# The ends of its `p`, neither of which is reached: with its default of 0.75 it must be told even that all tokens are to be looked at.
_LEAST_P, _MOST_P = 0.01, 0.99


def write_request(chat: ChatRequest, concessions: Concessions) -> Body:
    return _Writing(chat, concessions).body()


class _Writing:
    def __init__(self, chat: ChatRequest, concessions: Concessions) -> None:
        self._chat = chat
        self._concessions = concessions

    def body(self) -> Body:
        chat, concessions = self._chat, self._concessions
        if chat.prompt is not None:
            concessions.without("prompt", "its chat goes on with no text.")
        format = self._format()
        messages, documents = write_messages(chat, concessions, constrained=format is not None)
        body = Body(model=chat.model, messages=messages)
        if documents:
            body["documents"] = documents
        fields: dict[str, Any] = {
            **write_tools(chat, concessions, constrained=format is not None),
            "response_format": format,
            "thinking": self._thinking(chat.thinking),
            "max_tokens": chat.max_tokens,
            "stop_sequences": self._stops(),
            "temperature": chat.temperature,
            "p": self._p(),
            "k": self._k(),
            "seed": self._seed(),
            "frequency_penalty": self._penalty("frequency_penalty", chat.frequency_penalty),
            "presence_penalty": self._penalty("presence_penalty", chat.presence_penalty),
            "logprobs": chat.logprobs or None,
        }
        body.update({key: value for key, value in fields.items() if value is not None})
        self._unsayable()
        self._extra(body)
        return body

    def _format(self) -> dict[str, Any] | None:
        if self._chat.output is None:
            return None
        try:
            return write_format(self._chat.output)
        except Unsupported as reason:
            self._concessions.without("output", reason.message)
            return None

    def _thinking(self, thinking: Thinking | None) -> dict[str, Any] | None:
        """It thinks within a number of tokens, or as the model finds right; efforts it does not know."""
        if thinking is None:
            return None
        if thinking.summary is not None:
            self._concessions.hint("thinking.summary")
        if thinking.effort == "none":
            return {"type": "disabled"}
        if thinking.effort is not None:
            self._concessions.hint("thinking.effort")
        if thinking.budget_tokens is not None:
            return {"type": "enabled", "token_budget": thinking.budget_tokens}
        return {"type": "enabled"}

    def _stops(self) -> tuple[str, ...] | None:
        stops = self._chat.stop
        if len(stops) > _MOST_STOPS:
            self._concessions.without("stop", f"it takes at most {_MOST_STOPS} stop sequences, and these are {len(stops)}.")
            return None
        return stops or None

    def _p(self) -> float | None:
        p = self._chat.top_p
        if p is None or _LEAST_P <= p <= _MOST_P:
            return p
        self._concessions.hint("top_p")
        return min(max(p, _LEAST_P), _MOST_P)

    def _k(self) -> int | None:
        """Others say -1 where all are to be looked at, it 0."""
        k = self._chat.top_k
        if k is not None and k > _MOST_K:
            return self._concessions.without("top_k", f"its k goes up to {_MOST_K}, and this is {k}.")
        return None if k is None else max(0, k)

    def _seed(self) -> int | None:
        seed = self._chat.seed
        if seed is not None and seed < 0:
            return self._concessions.without("seed", "its seeds are not negative.")
        return seed

    def _penalty(self, field: str, penalty: float | None) -> float | None:
        if penalty is not None and not 0 <= penalty <= 1:
            return self._concessions.without(field, f"its penalties go from 0 to 1, and this is {penalty:g}.")
        return penalty

    def _unsayable(self) -> None:
        chat, concessions = self._chat, self._concessions
        if chat.n is not None and chat.n > 1:
            concessions.without("n", "it gives one answer.")
        if chat.top_logprobs:
            concessions.without("top_logprobs", "it tells of the tokens alone that it chose.")
        if chat.logit_bias is not None and chat.logit_bias != Raw(b"{}"):
            concessions.without("logit_bias", _WHY)
        if chat.verbosity not in (None, "medium"):
            concessions.without("verbosity", _WHY)
        for field in ("user", "safety_identifier", "metadata", "service_tier", "store", "cache_key"):
            if getattr(chat, field) is not None:
                concessions.hint(field)

    def _extra(self, body: Body) -> None:
        said = {*_OWN, "documents"} if "thinking" in body else {*_OWN, "documents", "thinking"}
        for key in said & self._chat.extra.keys():
            value = self._chat.extra[key]
            match key:
                case "documents":
                    body[key] = [*msgspec.json.decode(value, type=list[Raw]), *body.get(key, ())]
                case "thinking":
                    body[key] = as_raw(value)
                case _:
                    body[key] = value
        concede_extra(self._chat.extra, self._concessions, _WHY, said)
