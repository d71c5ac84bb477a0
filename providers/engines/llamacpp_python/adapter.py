"""llama-cpp-python's server: llama.cpp as a Python library, behind a small OpenAI dialect of its own.

It serves one request at a time. By default a new one cuts the stream before it short, with [DONE] and no finish reason, which its caller is
told as an error: start it with `--interrupt_requests false`, and requests wait. A whole answer is computed to its end whoever has gone, so
it is asked for streams alone. A grammar that it cannot read ends its process, so every grammar here is one of ours, or was read before.
Seen on 0.3.36, 2026-11; tests/engines/small/test_llamacpp_python_direct.py says it again.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, assert_never

import msgspec
from msgspec import Raw

from providers import structured_output
from providers.adapters.messages import drop_unsupported_parts
from providers.adapters.provider import Adapted, InvalidOption, Provider
from providers.adapters.unsupported_fields import NeutralValues, UnsupportedFields
from providers.canonical.errors import Unsupported, UpstreamError, UpstreamRejected
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.upstream_errors import read_error
from providers.engines.llamacpp.fields import HINT_FIELDS, UNKNOWN_FIELDS
from providers.engines.llamacpp.schemas import LLAMACPP_PYTHON_CONVERTER, as_object_schema, convert_schema
from providers.engines.llamacpp.tools import adapt_strict_tools, adapt_tools, read_tool_choice
from providers.structured_output import (
    Choice,
    Constraint,
    ConstraintPlan,
    ConstraintSupport,
    Grammar,
    JsonObject,
    JsonSchema,
    OutputFormat,
    Regex,
    StructuralTag,
)

# What it has no field for, with the values of each that ask for nothing; its bodies are read without a word about what is unknown.
_UNKNOWN_FIELDS: NeutralValues = {
    **UNKNOWN_FIELDS,
    "ignore_eos": (False,),
    "typical_p": (1,),
    "n": (1,),
    "chat_template_kwargs": ({},),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "reasoning_effort": (),
}
_NEUTRAL_VALUES: NeutralValues = {
    **_UNKNOWN_FIELDS,
    "logprobs": (False,),
    "top_logprobs": (),
    "parallel_tool_calls": (True,),
    "tools": ([],),
    "stop": ([],),
    "frequency_penalty": (),
    "presence_penalty": (),
    "temperature": (),
    "top_p": (),
    "repetition_penalty": (),
    # Typed there, so that null, which means not said to callers, would be a 500.
    **dict.fromkeys(("top_k", "min_p", "min_tokens", "mirostat_mode", "mirostat_tau", "mirostat_eta"), ()),
    "logit_bias": ({},),
}

_UNSUPPORTED_PARTS = {
    b'"file"': "it reads no documents.",
    b'"refusal"': "it has no part of that kind.",
    b'"input_audio"': "it does not hear.",
}
_IMAGE_PARTS_WITHOUT_VISION = {b'"image_url"': "without a `clip_model_path` it passes over images without a word (option `vision`)."}

# Its 500s that are the caller's doing: every exception becomes one. Left of `:` what the message has in it.
_CALLER_ERROR_MARKERS = (
    "validation error",
    "Tool choice",
    "Invalid logit_bias",
    "could not broadcast",
    "llama_decode returned 1",
    "exceed context",
)

_decode_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode


class LlamaCppPython(Provider):
    name: ClassVar[str] = "llamacpp_python"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions", "openai_embeddings")
    default_base_url: ClassVar[str | None] = None
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "calls": "true: its chat_format lets the model call tools of its own accord (functionary, chatml-function-calling)",
        "vision": "true: it was started with a clip_model_path",
    }

    unsupported_fields = frozenset(_UNKNOWN_FIELDS)
    hint_fields = HINT_FIELDS
    renamed_fields: Mapping[str, str] = {"repetition_penalty": "repeat_penalty", "max_completion_tokens": "max_tokens"}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        for option in ("calls", "vision"):
            if not isinstance(options.get(option, False), bool):
                raise InvalidOption(f"Option {option} of provider {configured_as!r} may be true or false.")
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

    def plan_constraint(self, constraint: Constraint, dialect: str, *, as_said: bool) -> ConstraintPlan | None:
        """Of a schema, what its converter passes over is said as a grammar of ours, or else looked at in the answer."""
        output = constraint.output
        if dialect == "openai_completions" and isinstance(output, JsonObject):
            raise self.unsupported_error(constraint.field, "its completions have no response_format; its chat has.")
        if not isinstance(output, JsonSchema) or dialect not in self.constrained_dialects:
            return super().plan_constraint(constraint, dialect, as_said=as_said)
        try:
            converted = convert_schema(as_object_schema(output.schema), LLAMACPP_PYTHON_CONVERTER)
        except Unsupported as reason:
            raise self.unsupported_error(constraint.field, reason.message) from None
        fields = {"response_format": {"type": "json_object", "schema": converted.schema}}
        if converted.is_enforced and dialect == "openai_chat":
            return ConstraintPlan("enforced", output, fields)
        try:
            return ConstraintPlan(
                "converted", output, {"grammar": structured_output.regex_to_gbnf(structured_output.schema_to_regex(output.schema, None))}
            )
        except Unsupported as reason:
            if dialect != "openai_chat":
                raise self.unsupported_error(constraint.field, f"its completions take grammars alone, and {reason.message}") from None
            return ConstraintPlan("validated", output, fields)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        if dialect not in self.constrained_dialects:
            return super().adapt_request(body, dialect, may_drop, constraint)
        unsupported_fields = UnsupportedFields(self, body, may_drop)
        unsupported_fields.drop_neutral(_NEUTRAL_VALUES)
        top_k = body.value("top_k")
        if isinstance(top_k, int) and top_k < 0:
            body["top_k"] = 0  # off; it answers negative numbers with 500, and left out would mean 40
        if body.has_value("max_completion_tokens"):
            body.pop("max_tokens", None)
        if dialect == "openai_completions":
            unsupported_fields.refuse_multiple_prompts("it answers several with a 500.")
        if dialect == "openai_chat":
            constraint = self._adapt_chat_body(body, unsupported_fields, constraint)
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = unsupported_fields.dropped
        return adapted

    def _adapt_chat_body(self, body: Body, unsupported_fields: UnsupportedFields, constraint: Constraint | None) -> Constraint | None:
        if body.value("parallel_tool_calls") is False and not body.has_value("tools"):
            del body["parallel_tool_calls"]
        if body.value("logprobs") is True and not body.value("top_logprobs"):
            body["top_logprobs"] = 1  # for none it tells no logprobs at all
        unsupported_fields.drop_lone_top_logprobs()
        drop_unsupported_parts(
            body,
            _UNSUPPORTED_PARTS if self.options.get("vision") else {**_UNSUPPORTED_PARTS, **_IMAGE_PARTS_WITHOUT_VISION},
            unsupported_fields,
        )
        _simplify_messages(body)
        constraint = unsupported_fields.drop_tools_or_constraint(constraint)
        if body.has_value("tools"):
            self._adapt_tool_choice(body, unsupported_fields)
        adapt_strict_tools(body, unsupported_fields, constraint, LLAMACPP_PYTHON_CONVERTER)
        names = adapt_tools(body, unsupported_fields, LLAMACPP_PYTHON_CONVERTER)
        if names and body.value("tool_choice") == "required":
            body["tool_choice"] = {"type": "function", "function": {"name": names[0]}}
        return constraint

    def _adapt_tool_choice(self, body: Body, unsupported_fields: UnsupportedFields) -> None:
        """A named tool is called, once; nothing else is, whatever is asked, unless its chat_format does that."""
        mode, names = read_tool_choice(body.value("tool_choice"))
        is_only_choice = len(body.value("tools") if names is None else names) == 1
        if mode == "required" and not is_only_choice:
            unsupported_fields.drop_or_refuse(
                "tool_choice", "it calls a tool that is named, or the only one; which one of several it cannot choose."
            )
        elif mode == "auto" and not self.options.get("calls"):
            unsupported_fields.drop_or_refuse("tools", "it calls a tool that is named, and none of its own accord (option `calls`).")
            body.pop("tool_choice", None)
        body.pop("parallel_tool_calls", None)  # it makes one call

    def diagnostic_request(self, raw: bytes) -> bytes | None:
        """Where a stream is refused (a prompt too long), it is a 200 that ends; the same whole, of one token, is told the reason."""
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
            return {"grammar": structured_output.regex_to_gbnf(output.pattern)}
        case Choice():
            return {"grammar": structured_output.choice_to_gbnf(output.options)}
        case Grammar():
            if structured_output.detect_grammar_language(output.text) != "gbnf":
                raise Unsupported("it takes GBNF alone.")
            return {"grammar": output.text}
        case StructuralTag():
            raise Unsupported("it has none.")
        case _:
            assert_never(output)


def _simplify_messages(body: Body) -> None:
    """As it reads them: it knows no `developer`, which is OpenAI's newer name for the system, and texts as strings alone."""
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
    """Parts that are all text, as one."""
    parts = msgspec.json.decode(content, type=list[dict[str, Any]])
    if any(part.get("type") != "text" for part in parts):
        return content
    return Raw(msgspec.json.encode("".join(part["text"] for part in parts)))
