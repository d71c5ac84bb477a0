"""llama-cpp-python's server: llama.cpp as a Python library, behind a small OpenAI dialect of its own.

It serves one request at a time. By default a new one cuts the stream before it short, with [DONE] and no finish reason, which its caller
gets as an error: start it with `--interrupt_requests false`, and requests wait. Without a stream it computes the response to its end,
even for a caller who disconnected, so all requests are streams. A grammar that it cannot read ends its process, so every grammar here is
one of ours, or was parsed before.
Observed on 0.3.36, 2026-11; tests/engines/small/test_llamacpp_python_direct.py proves it.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, assert_never

import msgspec
from msgspec import Raw

from providers import structured_output
from providers.adapters.logprobs import drop_lone_top_logprobs
from providers.adapters.messages import drop_unsupported_parts
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted
from providers.adapters.tools import drop_tools_or_constraint
from providers.canonical.errors import Unsupported, UpstreamError, UpstreamRejected
from providers.canonical.extra_fields import as_raw
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.upstream_errors import read_error
from providers.drop_policy import DropPolicy
from providers.engines.llamacpp.fields import SHARED_HINT_FIELDS
from providers.engines.llamacpp.prompts import refuse_multiple_prompts
from providers.engines.llamacpp.schemas import LLAMACPP_PYTHON_CONVERTER, convert_schema
from providers.engines.llamacpp.tools import adapt_strict_tools, adapt_tools, read_tool_choice
from providers.engines.llamacpp_python.fields import (
    IGNORES_IMAGES,
    NEUTRAL_VALUES,
    UNKNOWN_FIELDS,
    UNSUPPORTED_PARTS,
    UNSUPPORTED_PARTS_WITHOUT_VISION,
)
from providers.engines.object_schemas import as_object_schema
from providers.structured_output import Constraint, ConstraintPlan, ConstraintSupport
from providers.structured_output.gbnf import choice_to_gbnf, regex_to_gbnf
from providers.structured_output.grammar_language import detect_grammar_language
from providers.structured_output.schema_regex import schema_to_regex

# In the messages of 500s that the request causes: every exception of the server becomes a 500.
_CALLER_ERROR_MARKERS = (
    "validation error",
    "Tool choice",
    "Invalid logit_bias",
    "could not broadcast",
    "llama_decode returned 1",
    "exceed context",
)

_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode


class LlamaCppPython(OpenAICompatible):
    """It calls a tool only where the choice names one, unless its chat_format does more (option `calls`)."""

    name: ClassVar[str] = "llamacpp_python"
    thinking_fields = frozenset()
    is_self_hosted: bool = True
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions", "openai_embeddings")
    default_base_url: ClassVar[str | None] = None
    stops_on_disconnect = "streams"  # docs/sources.md: a non-streaming response is computed to its end
    known_options: ClassVar[Mapping[str, str]] = {
        **OpenAICompatible.known_options,
        "calls": "true: with its chat_format the model decides itself whether to call tools (functionary, chatml-function-calling)",
        "vision": "true: it was started with a clip_model_path",
    }

    unsupported_fields = frozenset(UNKNOWN_FIELDS)
    hint_fields = SHARED_HINT_FIELDS
    restricted_fields: Mapping[str, str] = {}
    unread_parts = UNSUPPORTED_PARTS
    renamed_fields: Mapping[str, str] = {
        "repetition_penalty": "repeat_penalty",
        "max_completion_tokens": "max_tokens",
        "min_new_tokens": "min_tokens",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        for option in ("calls", "vision"):
            if not isinstance(options.get(option, False), bool):
                raise InvalidOption(f"Option {option} may be true or false.")
        if "stream" not in options:
            self.streams = "only"
        self.stream_usage = False

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return {
            "json_object": ConstraintSupport("validated", _write_constraint),
            "json_schema": ConstraintSupport("validated", _write_constraint),
            "regex": ConstraintSupport("converted", _write_constraint),
            "choice": ConstraintSupport("converted", _write_constraint),
            "grammar": ConstraintSupport("enforced", _write_constraint),
        }

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        """A schema that its converter does not cover is sent as a grammar made from it, or else validated."""
        output = constraint.output
        if dialect == "openai_completions" and isinstance(output, JsonObject):
            raise self.unsupported_error(constraint.field, "its completions have no response_format; its chat has.")
        if not isinstance(output, JsonSchema) or dialect not in self.constrained_dialects:
            return super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)
        try:
            converted = convert_schema(as_object_schema(output.schema), LLAMACPP_PYTHON_CONVERTER)
        except Unsupported as reason:
            raise self.unsupported_error(constraint.field, reason.message) from None
        fields = {"response_format": {"type": "json_object", "schema": converted.schema}}
        if converted.is_enforced and dialect == "openai_chat":
            return ConstraintPlan("enforced", output, fields)
        try:
            return ConstraintPlan("converted", output, {"grammar": regex_to_gbnf(schema_to_regex(output.schema, None))})
        except Unsupported as reason:
            if dialect != "openai_chat":
                raise self.unsupported_error(constraint.field, f"its completions take only grammars, and {reason.message}") from None
            return ConstraintPlan("validated", output, fields)

    def why_no_images(self, model: str) -> str | None:
        return None if self.options.get("vision") else IGNORES_IMAGES

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        if dialect not in self.constrained_dialects:
            return super().adapt_request(body, dialect, may_drop, constraint)
        drop_policy = self.drop_policy(body, may_drop)
        drop_policy.drop_neutral(NEUTRAL_VALUES)
        top_k = body.value("top_k")
        if isinstance(top_k, int) and top_k < 0:
            body["top_k"] = 0  # off; it answers 500 to negative numbers, and its default is 40
        if dialect == "openai_completions":
            refuse_multiple_prompts(body, drop_policy, "it answers 500 to several.")
        if dialect == "openai_chat":
            constraint = self._adapt_chat_body(body, drop_policy, constraint)
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = drop_policy.dropped
        return adapted

    def _adapt_chat_body(self, body: Body, drop_policy: DropPolicy, constraint: Constraint | None) -> Constraint | None:
        if body.value("parallel_tool_calls") is False and not body.has_value("tools"):
            del body["parallel_tool_calls"]
        if body.value("logprobs") is True and not body.value("top_logprobs"):
            body["top_logprobs"] = 1  # at 0 it reports no logprobs at all
        drop_lone_top_logprobs(body, drop_policy)
        unsupported_parts = UNSUPPORTED_PARTS if self.options.get("vision") else UNSUPPORTED_PARTS_WITHOUT_VISION
        drop_unsupported_parts(body, unsupported_parts, drop_policy)
        _simplify_messages(body)
        constraint = drop_tools_or_constraint(body, constraint, drop_policy)
        if body.has_value("tools"):
            self._adapt_tool_choice(body, drop_policy)
        adapt_strict_tools(body, drop_policy, constraint, LLAMACPP_PYTHON_CONVERTER)
        names = adapt_tools(body, drop_policy, LLAMACPP_PYTHON_CONVERTER)
        if names and body.value("tool_choice") == "required":
            body["tool_choice"] = {"type": "function", "function": {"name": names[0]}}
        return constraint

    def _adapt_tool_choice(self, body: Body, drop_policy: DropPolicy) -> None:
        """It calls a named tool, once, and nothing else, whatever the choice is, unless its chat_format does."""
        mode, names = read_tool_choice(body.value("tool_choice"))
        is_only_choice = len(body.value("tools") if names is None else names) == 1
        if mode == "required" and not is_only_choice:
            drop_policy.drop_or_refuse("tool_choice", "it calls a named tool, or the only one, and cannot choose among several.")
        elif mode == "auto" and not self.options.get("calls"):
            drop_policy.drop_or_refuse("tools", "it calls only a named tool, never one that the model chooses (option `calls`).")
            body.pop("tool_choice", None)
        body.pop("parallel_tool_calls", None)  # it makes one call

    def diagnostic_request(self, raw: bytes) -> bytes | None:
        """A rejected stream (a prompt that is too long) is a 200 that ends; the same request without a stream reports the reason."""
        body = Body.read(raw)
        body["stream"], body["max_tokens"] = False, 1
        return body.write()

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        error = read_error(status, headers, body)
        if status == 500 and any(marker in error.message for marker in _CALLER_ERROR_MARKERS):
            return UpstreamRejected(error.message, upstream_status=400, param=error.param)
        return error


def _write_constraint(output: OutputFormat) -> Mapping[str, Any]:
    match output:
        case JsonObject():
            return {"response_format": {"type": "json_object"}}
        case JsonSchema():
            return {"response_format": {"type": "json_object", "schema": convert_schema(output.schema, LLAMACPP_PYTHON_CONVERTER).schema}}
        case Regex():
            return {"grammar": regex_to_gbnf(output.pattern)}
        case Choice():
            return {"grammar": choice_to_gbnf(output.options)}
        case Grammar():
            if detect_grammar_language(output.text) != "gbnf":
                raise Unsupported("it takes only GBNF.")
            return {"grammar": output.text}
        case StructuralTag():
            raise Unsupported("it has no structural tags.")
        case _:
            assert_never(output)


def _simplify_messages(body: Body) -> None:
    """Adapts messages: it does not know the role `developer`, OpenAI's newer name for `system`, and reads texts as strings only."""
    raw = bytes(as_raw(body["messages"])) if body.has_value("messages") else b""
    if not any(marker in raw for marker in (b'"developer"', b'"content":[', b'"content": [', b'"content":null', b'"content": null')):
        return
    try:
        messages = _decode_messages(raw)
        for message in messages:
            if message.get("role") == Raw(b'"developer"'):
                message["role"] = Raw(b'"system"')
            content = message.get("content", NULL)
            if content == NULL:
                message.pop("content", None)
            elif bytes(content)[:1] == b"[":
                message["content"] = _join_text_parts(content)
    except DECODE_ERRORS:
        return
    body["messages"] = messages


def _join_text_parts(content: Raw) -> Raw:
    """The content as one string, if all its parts are texts."""
    parts = msgspec.json.decode(content, type=list[dict[str, Any]])
    if any(part.get("type") != "text" for part in parts):
        return content
    return Raw(msgspec.json.encode("".join(part["text"] for part in parts)))
