"""llama.cpp's own server, which has three ways to constrain an answer (json_schema, grammar, response_format) and no names for the others'.

Asked by chat and completions alone, although it speaks Responses and Messages too: its Responses never say incomplete and number no
events, and of both it is not known what they ignore. Counting the tokens of a message is the same either way.
Stopping: closing the connection ends a stream at once. That the caller of a whole answer has gone it sees only after a second in which it
wrote nothing for anybody, so it is asked for streams alone.
Seen on b11549 (xllamacpp 2026.10.11549), 2026-11; tests/engines/small/test_llamacpp_direct.py says it again.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, assert_never

from providers import structured_output
from providers.adapters.messages import drop_unsupported_parts, rename_reasoning
from providers.adapters.provider import Adapted, InvalidOption, Provider
from providers.adapters.unsupported_fields import NeutralValues, UnsupportedFields
from providers.canonical.errors import UnparsableModelOutput, Unsupported, UpstreamError, UpstreamRejected
from providers.canonical.raw_json import Body
from providers.canonical.upstream_errors import read_error
from providers.engines.llamacpp.fields import HINT_FIELDS, UNKNOWN_FIELDS
from providers.engines.llamacpp.schemas import LLAMACPP_CONVERTER, as_object_schema, convert_schema
from providers.engines.llamacpp.tools import adapt_strict_tools, adapt_tools
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
    "min_tokens": (0,),
    "echo": (False,),
    "suffix": ("",),
    "grammar_lazy": (False,),
    "grammar_triggers": ([],),
}
_NEUTRAL_VALUES: NeutralValues = {
    **_UNKNOWN_FIELDS,
    "n": (1,),
    "logprobs": (False,),
    "parallel_tool_calls": (True,),
    "repetition_penalty": (),
    "tools": ([],),
}

_UNSUPPORTED_PARTS = {b'"file"': "it reads no documents.", b'"refusal"': "it has no part of that kind."}
_LLGUIDANCE_HEADER = "%llguidance"
_USAGE_COUNTS_ONE_CHOICE = "of several answers it tells the tokens of one alone, so that the others would not be counted."


class LlamaCpp(Provider):
    name: ClassVar[str] = "llamacpp"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions", "openai_embeddings", "anthropic_count_tokens")
    default_base_url: ClassVar[str | None] = None
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "llguidance": "true: it was built with LLAMA_LLGUIDANCE, so that it takes Lark grammars; without, one would end its process",
    }

    unsupported_fields = frozenset(_UNKNOWN_FIELDS)
    hint_fields = HINT_FIELDS
    renamed_fields: Mapping[str, str] = {"repetition_penalty": "repeat_penalty"}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        if not isinstance(options.get("llguidance", False), bool):
            raise InvalidOption(f"Option llguidance of provider {configured_as!r} may be true or false.")
        self._accepts_lark = bool(options.get("llguidance"))
        if "stream" not in options:
            self.streams = "only"

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return {
            "json_object": ConstraintSupport("enforced", self._write_constraint),
            "json_schema": ConstraintSupport("enforced", self._write_constraint),
            "regex": ConstraintSupport("converted", self._write_constraint),
            "choice": ConstraintSupport("converted", self._write_constraint),
            "grammar": ConstraintSupport("enforced", self._write_constraint),
        }

    def plan_constraint(self, constraint: Constraint, dialect: str, *, as_said: bool) -> ConstraintPlan | None:
        """What its converter of schemas passes over is said as a grammar made of the whole schema, or else looked at in the answer."""
        output = constraint.output
        if not isinstance(output, JsonSchema) or dialect not in self.constrained_dialects:
            return super().plan_constraint(constraint, dialect, as_said=as_said)
        try:
            converted = convert_schema(as_object_schema(output.schema), LLAMACPP_CONVERTER)
        except Unsupported as reason:
            raise self.unsupported_error(constraint.field, reason.message) from None
        fields = {"json_schema": converted.schema}
        if converted.is_enforced:
            return ConstraintPlan("enforced", output, fields)
        try:
            return ConstraintPlan(
                "converted", output, {"grammar": structured_output.regex_to_gbnf(structured_output.schema_to_regex(output.schema, None))}
            )
        except Unsupported:
            return ConstraintPlan("validated", output, fields)

    def _write_constraint(self, output: OutputFormat) -> Mapping[str, Any]:
        """In fields that chat and completions both obey; response_format is one of chat alone."""
        match output:
            case JsonObject():
                return {"json_schema": {"type": "object"}}
            case JsonSchema():
                return {"json_schema": convert_schema(output.schema, LLAMACPP_CONVERTER).schema}
            case Regex():
                return {"grammar": structured_output.regex_to_gbnf(output.pattern)}
            case Choice():
                return {"grammar": structured_output.choice_to_gbnf(output.options)}
            case Grammar():
                return {"grammar": self._write_grammar(output.text)}
            case StructuralTag():
                raise Unsupported("it has none.")
            case _:
                assert_never(output)

    def _write_grammar(self, text: str) -> str:
        if structured_output.detect_grammar_language(text) == "gbnf":
            return text
        if not self._accepts_lark:
            raise Unsupported("it takes GBNF; Lark only where it was built with llguidance (option `llguidance`).")
        return text if text.startswith(_LLGUIDANCE_HEADER) else f"{_LLGUIDANCE_HEADER} {{}}\n{text}"

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        if dialect not in self.constrained_dialects:
            return super().adapt_request(body, dialect, may_drop, constraint)
        unsupported_fields = UnsupportedFields(self, body, may_drop)
        unsupported_fields.drop_neutral(_NEUTRAL_VALUES)
        if body.has_value("n"):
            unsupported_fields.drop_or_refuse("n", _USAGE_COUNTS_ONE_CHOICE)
        if dialect == "openai_completions":
            unsupported_fields.refuse_multiple_prompts(_USAGE_COUNTS_ONE_CHOICE)
        if dialect == "openai_chat":
            constraint = self._adapt_chat_body(body, unsupported_fields, constraint)
        elif body.has_value("logprobs"):
            unsupported_fields.drop_or_refuse("logprobs", "what it tells of them is not what a completion's are.")
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = unsupported_fields.dropped
        return adapted

    def _adapt_chat_body(self, body: Body, unsupported_fields: UnsupportedFields, constraint: Constraint | None) -> Constraint | None:
        unsupported_fields.drop_lone_top_logprobs()
        if body.value("parallel_tool_calls") is False and not (body.value("tools") and body.value("tool_choice") != "none"):
            del body["parallel_tool_calls"]
        elif body.value("parallel_tool_calls") is False:
            unsupported_fields.drop_or_refuse("parallel_tool_calls", "it makes several calls at once all the same.")
        if body.value("tools") and body.has_value("logprobs") and (self.streams == "only" or body.value("stream")):
            unsupported_fields.drop_or_refuse("logprobs", "beside tools it tells none in a stream, which is how it is asked.")
            body.pop("top_logprobs", None)
        if body.has_value("logprobs") and body.value("top_logprobs") == 0:
            body["top_logprobs"] = 1  # for none it leaves out those of the tokens themselves, too
        rename_reasoning(body)
        drop_unsupported_parts(body, _UNSUPPORTED_PARTS, unsupported_fields)
        constraint = unsupported_fields.drop_tools_or_constraint(constraint)
        adapt_strict_tools(body, unsupported_fields, constraint, LLAMACPP_CONVERTER)
        adapt_tools(body, unsupported_fields, LLAMACPP_CONVERTER)
        return constraint

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Of its 500s some are the caller's doing, and one is about what the model wrote."""
        error = read_error(status, headers, body)
        if status == 500:
            if "does not match the expected" in error.message:
                return UnparsableModelOutput(error.message, upstream_status=status)
            if any(marker in error.message for marker in _CALLER_ERROR_MARKERS):
                return UpstreamRejected(error.message, upstream_status=400)
        return error


_CALLER_ERROR_MARKERS = (
    "input is not supported",
    "Failed to parse tools",
    "Failed to parse messages",
    "Unsupported tool type",
    "parse error",
)
