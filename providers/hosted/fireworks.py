"""Fireworks AI: OpenAI's dialects and Anthropic's, all below /inference/v1, read strictly: a field that it does not know is a 400."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers import guided
from providers.errors import Exhausted, Unsupported, UpstreamError
from providers.guided import Choice, Constraint, Grammar, Guiding, Output, Regex, Way
from providers.hosted.promises import as_promised
from providers.hosted.rowed import Rowed
from providers.provider import Bent
from providers.rest import as_raw
from providers.wire import UNREADABLE, Body

# Of a tool in Messages, what changes no answer, and is refused: recorded in an issue, fireworks/13-messages-error-400-unknown-field.
_HINTS_OF_TOOLS = ("cache_control", "eager_input_streaming", "defer_loading")

_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


class Fireworks(Rowed, row="fireworks"):
    @property
    def guided(self) -> guided.Ways:
        """Grammars are GBNF. Source: https://docs.fireworks.ai/structured-responses/structured-response-formatting, read 2026-11."""
        return {**super().guided, **_GRAMMARS}

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        return as_promised(super().guiding(constraint, dialect, as_said=as_said), constraint, vouched=self.vouched)

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        bent = super().bend(body, dialect, may_drop, constraint)
        if dialect == "anthropic_messages":
            bent.dropped += _without_hints(body)
        return bent

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """412: the account is suspended, for what it has spent or not paid (/reference/providers.md part 5)."""
        error = super().read_error(status, headers, body)
        if status != 412:
            return error
        spent = Exhausted(error.message, told=status)
        spent.said_code = error.said_code
        return spent


def _without_hints(body: Body) -> list[str]:
    """Takes them out of tools, and tells which there were."""
    raw = bytes(as_raw(body["tools"])) if body.said("tools") else b""
    said = [hint for hint in _HINTS_OF_TOOLS if f'"{hint}"'.encode() in raw]
    if not said:
        return []
    try:
        tools = _tools(raw)
    except UNREADABLE:
        return []
    found = [hint for hint in said if any(hint in tool for tool in tools)]
    if found:
        body["tools"] = [{key: value for key, value in tool.items() if key not in _HINTS_OF_TOOLS} for tool in tools]
    return [f"tools[].{hint}" for hint in found]


def _write_grammar(output: Output) -> Mapping[str, Any]:
    match output:
        case Regex():
            grammar = guided.regex_to_gbnf(output.pattern)
        case Choice():
            grammar = guided.choice_to_gbnf(output.options)
        case Grammar() if guided.grammar_language(output.text) == "gbnf":
            grammar = output.text
        case _:
            raise Unsupported("its grammars are GBNF.")
    return {"response_format": {"type": "grammar", "grammar": grammar}}


_GRAMMARS: guided.Ways = {
    "regex": Way("converted", _write_grammar),
    "choice": Way("converted", _write_grammar),
    "grammar": Way("enforced", _write_grammar),
}
