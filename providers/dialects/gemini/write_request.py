"""A chat as a generateContent request; what the API cannot express is dropped or refused.

Source: https://ai.google.dev/api/generate-content (GenerationConfig), read 2026-11.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from providers.canonical.chat import ChatRequest, Message, Text
from providers.canonical.errors import Unsupported
from providers.canonical.extra_fields import write_extra_field
from providers.canonical.raw_json import Body
from providers.dialects.gemini.contents import Contents
from providers.dialects.gemini.opaque_parts import NAME
from providers.dialects.gemini.output_format import write_format
from providers.dialects.gemini.thinking import write_thinking
from providers.dialects.gemini.tools import CALLING_CONFIG, write_tools
from providers.drop_policy import DropPolicy
from providers.fields import drop_extra_fields
from providers.profiles.gemini import GeminiProfile, find_profile
from providers.unsupported import CHAT_HINT_FIELDS, check_unsupported

_NO_SUCH_FIELD = "Gemini has no such field."
_UNSUPPORTED_FIELDS = {"logit_bias": _NO_SUCH_FIELD, "verbosity": _NO_SUCH_FIELD}
_MAX_STOPS = 5
_MAX_CANDIDATES = 8
# Google's own fields, which callers of any dialect may send in either spelling.
_NATIVE_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("safety_settings", "safetySettings"), "safetySettings"),
    **dict.fromkeys(("cached_content", "cachedContent"), "cachedContent"),
}


def write_request(chat: ChatRequest, drop_policy: DropPolicy) -> Body:
    return _RequestWriter(chat, drop_policy).write_body()


class _RequestWriter:
    def __init__(self, chat: ChatRequest, drop_policy: DropPolicy) -> None:
        self._chat = chat
        self._profile: GeminiProfile = find_profile(chat.model)
        self._drop_policy = drop_policy
        self._is_native = chat.origin == NAME  # Gemini's own fields go where the caller had them

    def write_body(self) -> Body:
        chat = self._chat
        if chat.prompt is not None:
            self._drop_policy.drop_or_refuse("prompt", "it answers messages and cannot continue a raw prompt.")
            chat = msgspec.structs.replace(chat, messages=(*chat.messages, Message("user", (Text(chat.prompt),))))
        contents = Contents(chat, self._profile, self._drop_policy)
        body = Body(contents=contents.turns)
        if contents.instructions:
            body["systemInstruction"] = {"parts": contents.instructions}
        tools = write_tools(chat, self._profile, self._drop_policy)
        body.update(tools)
        config = {**self._sampling(), **self._output_format(tools=bool(tools.get("tools")))}
        thinking = write_thinking(chat.thinking, self._profile, self._drop_policy, shows_thoughts=not self._is_native)
        if thinking is not None:
            config["thinkingConfig"] = thinking
        if config:
            body["generationConfig"] = config
        hints = () if self._is_native else CHAT_HINT_FIELDS
        check_unsupported(chat, self._drop_policy, _UNSUPPORTED_FIELDS, hints)
        self._write_extra(body)
        return body

    def _output_format(self, *, tools: bool) -> dict[str, Any]:
        output = self._chat.output
        if output is None:
            return {}
        if tools and not self._profile.tools_with_schema:
            self._drop_policy.drop_or_refuse("output", "before Gemini 3 it cannot constrain an answer beside tools.")
            return {}
        try:
            fields = write_format(output)
        except Unsupported as refusal:
            self._drop_policy.drop_or_refuse("output", refusal.message)
            return {}
        if getattr(output, "strict", None) is False:
            self._drop_policy.drop_hint("output.strict")
        return fields

    def _sampling(self) -> dict[str, Any]:
        chat = self._chat
        config: dict[str, Any] = {
            "maxOutputTokens": chat.max_tokens,
            "temperature": self._sampling_field("temperature", 1),
            "topP": self._sampling_field("top_p", 1),
            # Other engines write -1 or 0 for "all tokens".
            "topK": self._sampling_field("top_k", None) if chat.top_k is not None and chat.top_k > 0 else None,
            # A seed has 32 bits.
            "seed": None if chat.seed is None else chat.seed % 2**31,
            "candidateCount": self._limited("n", _MAX_CANDIDATES, f"it gives at most {_MAX_CANDIDATES} answers."),
            "stopSequences": self._stops(),
            "frequencyPenalty": self._penalty("frequency_penalty"),
            "presencePenalty": self._penalty("presence_penalty"),
            **self._logprobs(),
        }
        return {key: value for key, value in config.items() if value is not None}

    def _sampling_field(self, field: str, default: float | None) -> float | None:
        """The value to send. `default` is the value that newer models use, which ignore any other."""
        value = getattr(self._chat, field)
        if value is None or self._profile.honours_sampling:
            return value
        if value != default:
            self._drop_policy.drop_missing(field, "this model ignores it, as all do since Gemini 3.5 Flash-Lite.")
        return None

    def _penalty(self, field: str) -> float | None:
        """The penalty to send; 0 is the default and not sent."""
        value = getattr(self._chat, field)
        if not value:
            return None
        if not self._profile.honours_sampling:
            self._drop_policy.drop_or_refuse(field, "this model refuses it, as all do since Gemini 3.5 Flash-Lite.")
            return None
        if value >= 2:
            self._drop_policy.drop_or_refuse(field, "it takes penalties from -2 to less than 2.")
            return None
        return value

    def _limited(self, field: str, maximum: int, reason: str) -> int | None:
        value = getattr(self._chat, field)
        if value is None or value == 1:
            return None
        if value > maximum:
            self._drop_policy.drop_or_refuse(field, reason)
            return None
        return value

    def _stops(self) -> list[str] | None:
        if len(self._chat.stop) > _MAX_STOPS:
            self._drop_policy.drop_or_refuse("stop", f"it takes at most {_MAX_STOPS} stop sequences.")
            return None
        return list(self._chat.stop) or None

    def _logprobs(self) -> dict[str, Any]:
        chat = self._chat
        if chat.logprobs:
            return {"responseLogprobs": True, **({"logprobs": chat.top_logprobs} if chat.top_logprobs else {})}
        if chat.top_logprobs:
            self._drop_policy.drop_or_refuse("top_logprobs", "it reports none without `logprobs`.")
        return {}

    def _write_extra(self, body: Body) -> None:
        extra = self._chat.extra
        if self._is_native:
            self._write_native_fields(body)
            return
        body.update({_NATIVE_FIELDS[key]: extra[key] for key in extra if key in _NATIVE_FIELDS})
        drop_extra_fields(extra, self._drop_policy, _NO_SUCH_FIELD, _NATIVE_FIELDS)

    def _write_native_fields(self, body: Body) -> None:
        chat = self._chat
        for path, value in chat.extra.items():
            if path != CALLING_CONFIG:  # whose mode write_tools() has written
                write_extra_field(body, path, value, "generationConfig", "toolConfig")
        for field, value in (("labels", chat.metadata), ("serviceTier", chat.service_tier), ("store", chat.store)):
            if value is not None:
                body[field] = value
