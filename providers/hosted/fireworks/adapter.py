"""Fireworks AI: OpenAI's dialects and Anthropic's below /inference/v1. Its Messages API answers 400 to unknown fields."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from providers import structured_output
from providers.adapters.provider import Adapted
from providers.canonical.errors import QuotaExhausted, Unsupported, UpstreamError
from providers.canonical.extra_fields import as_raw
from providers.canonical.output_format import Choice, Grammar, OutputFormat, Regex
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.canonical.reclassify_error import reclassify
from providers.hosted.host_spec_provider import HostSpecProvider
from providers.hosted.rules.loose_schemas import validate_loose_schema
from providers.structured_output import Constraint, ConstraintPlan, ConstraintSupport
from providers.structured_output.gbnf import choice_to_gbnf, regex_to_gbnf
from providers.structured_output.grammar_language import detect_grammar_language

# Fields of a tool in Messages that never change the response, and are a 400 here (fireworks/13-messages-error-400-unknown-field).
_TOOL_HINTS = ("cache_control", "eager_input_streaming", "defer_loading")

_decode_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode


class Fireworks(HostSpecProvider, host="fireworks"):
    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        """Grammars are GBNF. Source: https://docs.fireworks.ai/structured-responses/structured-response-formatting, read 2026-11."""
        return {**super().constraint_support, **_GRAMMAR_SUPPORT}

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        return validate_loose_schema(
            super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields), constraint, trusted=self.trusted
        )

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == "anthropic_messages":
            adapted.dropped += _drop_tool_hints(body)
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """412: the account is suspended over spending or payment (docs/sources.md#host-errors)."""
        error = super().read_error(status, headers, body)
        return reclassify(error, QuotaExhausted(error.message, upstream_status=status)) if status == 412 else error


def _drop_tool_hints(body: Body) -> list[str]:
    """Removes _TOOL_HINTS from tools and returns the dropped paths."""
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
            grammar = regex_to_gbnf(output.pattern)
        case Choice():
            grammar = choice_to_gbnf(output.options)
        case Grammar() if detect_grammar_language(output.text) == "gbnf":
            grammar = output.text
        case _:
            raise Unsupported("its grammars must be GBNF.")
    return {"response_format": {"type": "grammar", "grammar": grammar}}


_GRAMMAR_SUPPORT: structured_output.SupportByKind = {
    "regex": ConstraintSupport("converted", _write_grammar),
    "choice": ConstraintSupport("converted", _write_grammar),
    "grammar": ConstraintSupport("enforced", _write_grammar),
}
