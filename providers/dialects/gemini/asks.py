"""A chat as a generateContent request, and what it cannot say of it.

Source: https://ai.google.dev/api/generate-content (GenerationConfig), read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers.chat import ChatRequest, Message, Text
from providers.dialect import Concessions
from providers.dialects.gemini.contents import Contents
from providers.dialects.gemini.formats import write_format
from providers.dialects.gemini.models import Rules, rules_of
from providers.dialects.gemini.thinking import write_thinking
from providers.dialects.gemini.tools import write_tools
from providers.errors import Unsupported
from providers.idle import concede_extra
from providers.wire import Body

_WHY = "Gemini has no such field."
_MOST_STOPS = 5
_MOST_CANDIDATES = 8
# Google's own words that callers of any dialect may send beside theirs.
_OWN: Mapping[str, str] = {
    **dict.fromkeys(("safety_settings", "safetySettings"), "safetySettings"),
    **dict.fromkeys(("cached_content", "cachedContent"), "cachedContent"),
}


def write_request(chat: ChatRequest, concessions: Concessions) -> Body:
    return _Writing(chat, concessions).body()


class _Writing:
    def __init__(self, chat: ChatRequest, concessions: Concessions) -> None:
        self._chat = chat
        self._rules: Rules = rules_of(chat.model)
        self._concessions = concessions

    def body(self) -> Body:
        chat = self._chat
        if chat.prompt is not None:
            self._concessions.without("prompt", "it answers contents, and goes on with no text.")
            chat = msgspec.structs.replace(chat, messages=(*chat.messages, Message("user", (Text(chat.prompt),))))
        contents = Contents(chat, self._rules, self._concessions)
        body = Body(contents=contents.turns)
        if contents.instructions:
            body["systemInstruction"] = {"parts": contents.instructions}
        tools = write_tools(chat, self._rules, self._concessions)
        body.update(tools)
        config = {**self._sampling(), **self._format(tools=bool(tools.get("tools")))}
        thinking = write_thinking(chat.thinking, self._rules, self._concessions)
        if thinking is not None:
            config["thinkingConfig"] = thinking
        if config:
            body["generationConfig"] = config
        self._unsayable()
        self._extra(body)
        return body

    def _format(self, *, tools: bool) -> dict[str, Any]:
        output = self._chat.output
        if output is None:
            return {}
        if tools and not self._rules.mixes:
            self._concessions.without("output", "before Gemini 3 it constrains no answer beside tools.")
            return {}
        try:
            told = write_format(output)
        except Unsupported as reason:
            self._concessions.without("output", reason.message)
            return {}
        if getattr(output, "strict", None) is False:
            self._concessions.hint("output.strict")
        return told

    def _sampling(self) -> dict[str, Any]:
        chat = self._chat
        config: dict[str, Any] = {
            "maxOutputTokens": chat.max_tokens,
            "temperature": self._heeded("temperature", 1),
            "topP": self._heeded("top_p", None),
            # Others say -1 or 0 where all are to be looked at.
            "topK": self._heeded("top_k", None) if chat.top_k is not None and chat.top_k > 0 else None,
            # It counts them in 32 bits.
            "seed": None if chat.seed is None else chat.seed % 2**31,
            "candidateCount": self._at_most("n", _MOST_CANDIDATES, "it gives 8 answers at most."),
            "stopSequences": self._stops(),
            "frequencyPenalty": self._penalty("frequency_penalty"),
            "presencePenalty": self._penalty("presence_penalty"),
            **self._logprobs(),
        }
        return {key: value for key, value in config.items() if value is not None}

    def _heeded(self, field: str, plain: float | None) -> float | None:
        """`plain`: the value that newer models, which pass over any, go by."""
        value = getattr(self._chat, field)
        if value is None or self._rules.samples:
            return value
        if value != plain:
            self._concessions.without(field, "this model passes over it, as all do since Gemini 3.5 Flash-Lite.")
        return None

    def _penalty(self, field: str) -> float | None:
        """0 is none."""
        value = getattr(self._chat, field)
        if not value:
            return None
        if not self._rules.samples:
            self._concessions.without(field, "this model refuses it, as all do since Gemini 3.5 Flash-Lite.")
            return None
        if value >= 2:
            self._concessions.without(field, "it takes penalties from -2 up to, and without, 2.")
            return None
        return value

    def _at_most(self, field: str, most: int, why: str) -> int | None:
        value = getattr(self._chat, field)
        if value is None or value == 1:
            return None
        if value > most:
            self._concessions.without(field, why)
            return None
        return value

    def _stops(self) -> list[str] | None:
        if len(self._chat.stop) > _MOST_STOPS:
            self._concessions.without("stop", f"it takes {_MOST_STOPS} stop sequences at most.")
            return None
        return list(self._chat.stop) or None

    def _logprobs(self) -> dict[str, Any]:
        chat = self._chat
        if chat.logprobs:
            return {"responseLogprobs": True, **({"logprobs": chat.top_logprobs} if chat.top_logprobs else {})}
        if chat.top_logprobs:
            self._concessions.without("top_logprobs", "it tells none without `logprobs`.")
        return {}

    def _unsayable(self) -> None:
        chat, concessions = self._chat, self._concessions
        if chat.logit_bias is not None and chat.logit_bias != Raw(b"{}"):
            concessions.without("logit_bias", _WHY)
        if chat.verbosity not in (None, "medium"):
            concessions.without("verbosity", _WHY)
        for field in ("user", "safety_identifier", "metadata", "service_tier", "store", "cache_key"):
            if getattr(chat, field) is not None:
                concessions.hint(field)

    def _extra(self, body: Body) -> None:
        extra = self._chat.extra
        body.update({_OWN[key]: extra[key] for key in extra if key in _OWN})
        concede_extra(extra, self._concessions, _WHY, _OWN)
