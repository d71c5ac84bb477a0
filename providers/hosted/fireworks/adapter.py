"""Fireworks AI: OpenAI's dialects and Anthropic's, all below /inference/v1, read strictly: a field that it does not know is a 400."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers import structured_output
from providers.adapters.provider import Adapted
from providers.canonical.errors import QuotaExhausted, Unsupported, UpstreamError
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.hosted.rules.host_spec_provider import HostSpecProvider
from providers.hosted.rules.loose_schemas import validate_loose_schema
from providers.structured_output import Choice, Constraint, ConstraintPlan, ConstraintSupport, Grammar, OutputFormat, Regex

# Of a tool in Messages, what changes no answer, and is refused: recorded in an issue, fireworks/13-messages-error-400-unknown-field.
_TOOL_HINTS = ("cache_control", "eager_input_streaming", "defer_loading")

_decode_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


class Fireworks(HostSpecProvider, host="fireworks"):
    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        """Grammars are GBNF. Source: https://docs.fireworks.ai/structured-responses/structured-response-formatting, read 2026-11."""
        return {**super().constraint_support, **_GRAMMAR_SUPPORT}

    def plan_constraint(self, constraint: Constraint, dialect: str, *, as_said: bool) -> ConstraintPlan | None:
        return validate_loose_schema(super().plan_constraint(constraint, dialect, as_said=as_said), constraint, trusted=self.trusted)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == "anthropic_messages":
            adapted.dropped += _drop_tool_hints(body)
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """412: the account is suspended, for what it has spent or not paid (/reference/providers.md part 5)."""
        error = super().read_error(status, headers, body)
        if status != 412:
            return error
        exhausted = QuotaExhausted(error.message, upstream_status=status)
        exhausted.upstream_code = error.upstream_code
        return exhausted


def _drop_tool_hints(body: Body) -> list[str]:
    """Takes them out of tools, and tells which there were."""
    raw = bytes(as_raw(body["tools"])) if body.has_value("tools") else b""
    mentioned = [hint for hint in _TOOL_HINTS if f'"{hint}"'.encode() in raw]
    if not mentioned:
        return []
    try:
        tools = _decode_tools(raw)
    except DECODE_ERRORS:
        return []
    found = [hint for hint in mentioned if any(hint in tool for tool in tools)]
    if found:
        body["tools"] = [{key: value for key, value in tool.items() if key not in _TOOL_HINTS} for tool in tools]
    return [f"tools[].{hint}" for hint in found]


def _write_grammar(output: OutputFormat) -> Mapping[str, Any]:
    match output:
        case Regex():
            grammar = structured_output.regex_to_gbnf(output.pattern)
        case Choice():
            grammar = structured_output.choice_to_gbnf(output.options)
        case Grammar() if structured_output.detect_grammar_language(output.text) == "gbnf":
            grammar = output.text
        case _:
            raise Unsupported("its grammars are GBNF.")
    return {"response_format": {"type": "grammar", "grammar": grammar}}


_GRAMMAR_SUPPORT: structured_output.SupportByKind = {
    "regex": ConstraintSupport("converted", _write_grammar),
    "choice": ConstraintSupport("converted", _write_grammar),
    "grammar": ConstraintSupport("enforced", _write_grammar),
}
