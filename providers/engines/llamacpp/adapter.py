"""llama.cpp's own server, which takes constraints in the fields json_schema, grammar and response_format.

Only its chat and completions are used, although it has Responses and Messages too: its Responses never end as incomplete and do not
number their events, and which fields the two ignore is not known. Counting the tokens of a message is the same either way.
Stopping: closing the connection ends a stream at once. Without a stream it notices the closed connection only after a second in which it
generated nothing for anybody, so all requests are streams.
Observed on b11549 (xllamacpp 2026.10.11549), 2026-11; tests/engines/small/test_llamacpp_direct.py proves it.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, assert_never

from providers import structured_output
from providers.adapters.logprobs import drop_lone_top_logprobs
from providers.adapters.lora import AdapterNaming
from providers.adapters.messages import UNREAD_PARTS, drop_unsupported_parts, rename_reasoning
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted
from providers.adapters.tools import drop_tools_or_constraint
from providers.adapters.unknown_fields import drop_unknown_fields
from providers.canonical.errors import UnparsableModelOutput, Unsupported, UpstreamError, UpstreamRejected
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag
from providers.canonical.raw_json import Body
from providers.canonical.upstream_errors import read_error
from providers.drop_policy import DropPolicy
from providers.engines.llamacpp.fields import (
    KNOWN_FIELDS,
    NEUTRAL_VALUES,
    RESTRICTED_FIELDS,
    SHARED_HINT_FIELDS,
    UNKNOWN_FIELDS,
)
from providers.engines.llamacpp.lora import select_adapter_by_id
from providers.engines.llamacpp.prompts import refuse_multiple_prompts
from providers.engines.llamacpp.schemas import LLAMACPP_CONVERTER, convert_schema
from providers.engines.llamacpp.tools import adapt_strict_tools, adapt_tools
from providers.engines.object_schemas import as_object_schema
from providers.structured_output import Constraint, ConstraintPlan, ConstraintSupport
from providers.structured_output.gbnf import choice_to_gbnf, regex_to_gbnf
from providers.structured_output.grammar_language import detect_grammar_language
from providers.structured_output.schema_regex import schema_to_regex

_LLGUIDANCE_HEADER = "%llguidance"
_USAGE_COUNTS_ONE_CHOICE = "it reports the tokens of only one of several responses, so that the others would not be counted."


class LlamaCpp(OpenAICompatible):
    """A constraint that its converter of schemas does not cover is sent as a grammar of ours, or validated."""

    name: ClassVar[str] = "llamacpp"
    thinking_fields = frozenset()
    is_self_hosted: bool = True
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions", "openai_embeddings", "anthropic_count_tokens")
    default_base_url: ClassVar[str | None] = None
    stops_on_disconnect = "always"
    known_options: ClassVar[Mapping[str, str]] = {
        **OpenAICompatible.known_options,
        "llguidance": "true: it was built with LLAMA_LLGUIDANCE, so that it takes Lark grammars; without it, one would end its process",
    }

    # It goes on after a final assistant message, unless it was started with --no-prefill-assistant (tools/server/README.md, read 2026-11).
    continuation_fields: ClassVar[Mapping[str, Mapping[str, Any]]] = {"openai_chat": {}}
    lora_naming: ClassVar[AdapterNaming | None] = staticmethod(select_adapter_by_id)

    unsupported_fields = frozenset(UNKNOWN_FIELDS)
    hint_fields = SHARED_HINT_FIELDS
    restricted_fields = RESTRICTED_FIELDS
    unread_parts = UNREAD_PARTS
    renamed_fields: Mapping[str, str] = {"repetition_penalty": "repeat_penalty"}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        if not isinstance(options.get("llguidance", False), bool):
            raise InvalidOption("Option llguidance may be true or false.")
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

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        """A schema that its converter does not cover is sent as a grammar made from it, or else validated."""
        output = constraint.output
        if not isinstance(output, JsonSchema) or dialect not in self.constrained_dialects:
            return super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)
        try:
            converted = convert_schema(as_object_schema(output.schema), LLAMACPP_CONVERTER)
        except Unsupported as reason:
            raise self.unsupported_error(constraint.field, reason.message) from None
        fields = {"json_schema": converted.schema}
        if converted.is_enforced:
            return ConstraintPlan("enforced", output, fields)
        try:
            return ConstraintPlan("converted", output, {"grammar": regex_to_gbnf(schema_to_regex(output.schema, None))})
        except Unsupported:
            return ConstraintPlan("validated", output, fields)

    def _write_constraint(self, output: OutputFormat) -> Mapping[str, Any]:
        """Writes a constraint in fields that work in chat and completions alike; response_format works in chat only."""
        match output:
            case JsonObject():
                return {"json_schema": {"type": "object"}}
            case JsonSchema():
                return {"json_schema": convert_schema(output.schema, LLAMACPP_CONVERTER).schema}
            case Regex():
                return {"grammar": regex_to_gbnf(output.pattern)}
            case Choice():
                return {"grammar": choice_to_gbnf(output.options)}
            case Grammar():
                return {"grammar": self._write_grammar(output.text)}
            case StructuralTag():
                raise Unsupported("it has no structural tags.")
            case _:
                assert_never(output)

    def _write_grammar(self, text: str) -> str:
        if detect_grammar_language(text) == "gbnf":
            return text
        if not self._accepts_lark:
            raise Unsupported("it takes GBNF, and Lark only where it was built with llguidance (option `llguidance`).")
        return text if text.startswith(_LLGUIDANCE_HEADER) else f"{_LLGUIDANCE_HEADER} {{}}\n{text}"

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        if dialect not in self.constrained_dialects:
            return super().adapt_request(body, dialect, may_drop, constraint)
        drop_policy = self.drop_policy(body, may_drop)
        drop_policy.drop_neutral(NEUTRAL_VALUES)
        for field in ("n", "n_cmpl"):
            if body.has_value(field):
                drop_policy.drop_or_refuse(field, _USAGE_COUNTS_ONE_CHOICE)
        if dialect == "openai_completions":
            refuse_multiple_prompts(body, drop_policy, _USAGE_COUNTS_ONE_CHOICE)
        if dialect == "openai_chat":
            constraint = self._adapt_chat_body(body, drop_policy, constraint)
        elif body.has_value("logprobs"):
            drop_policy.drop_or_refuse("logprobs", "it reports them in another shape than a completion has.")
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        drop_unknown_fields(body, KNOWN_FIELDS, drop_policy)
        adapted.dropped[:0] = drop_policy.dropped
        return adapted

    def _adapt_chat_body(self, body: Body, drop_policy: DropPolicy, constraint: Constraint | None) -> Constraint | None:
        if body.has_value("enable_thinking"):  # it reads this among the template's arguments only
            thinking = body.pop("enable_thinking")
            body["chat_template_kwargs"] = {"enable_thinking": thinking, **(body.value("chat_template_kwargs") or {})}
        drop_lone_top_logprobs(body, drop_policy)
        if body.value("parallel_tool_calls") is False and not (body.value("tools") and body.value("tool_choice") != "none"):
            del body["parallel_tool_calls"]
        elif body.value("parallel_tool_calls") is False:
            drop_policy.drop_or_refuse("parallel_tool_calls", "it makes several calls at once all the same.")
        if body.value("tools") and body.has_value("logprobs") and (self.streams == "only" or body.value("stream")):
            drop_policy.drop_or_refuse("logprobs", "beside tools it reports none in a stream, and all requests to it are streams.")
            body.pop("top_logprobs", None)
        if body.has_value("logprobs") and body.value("top_logprobs") == 0:
            body["top_logprobs"] = 1  # at 0 it leaves out those of the generated tokens, too
        rename_reasoning(body)
        drop_unsupported_parts(body, UNREAD_PARTS, drop_policy)
        constraint = drop_tools_or_constraint(body, constraint, drop_policy)
        adapt_strict_tools(body, drop_policy, constraint, LLAMACPP_CONVERTER)
        adapt_tools(body, drop_policy, LLAMACPP_CONVERTER)
        return constraint

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Some of its 500s are caused by the request, and one by what the model wrote."""
        error = read_error(status, headers, body)
        if status == 500:
            if "does not match the expected" in error.message:
                return UnparsableModelOutput(error.message, upstream_status=status)
            if any(marker in error.message for marker in _CALLER_ERROR_MARKERS):
                return UpstreamRejected(error.message, upstream_status=400)
        return error


# In the messages of 500s that the request causes.
_CALLER_ERROR_MARKERS = (
    "input is not supported",
    "Failed to parse tools",
    "Failed to parse messages",
    "Unsupported tool type",
    "parse error",
)
