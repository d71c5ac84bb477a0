"""llama.cpp's own server, which has three ways to constrain an answer (json_schema, grammar, response_format) and no names for the others'.

Asked by chat and completions alone, although it speaks Responses and Messages too: its Responses never say incomplete and number no
events, and of both it is not known what they ignore. Counting the tokens of a message is the same either way.
Stopping: closing the connection ends a stream at once. That the caller of a whole answer has gone it sees only after a second in which it
wrote nothing for anybody, so it is asked for streams alone.
Seen on b11549 (xllamacpp 2026.10.11549), 2026-11; tests/engines/small/test_llamacpp_direct.py says it again.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, assert_never

from providers import guided
from providers.engines.llamacpp_fields import HINTS, UNKNOWN
from providers.engines.llamacpp_schemas import CPP, as_object, write_schema
from providers.engines.llamacpp_tools import bend_strict, bend_tools
from providers.errors import Refused, Unparsed, Unsupported, UpstreamError
from providers.guided import Choice, Constraint, Grammar, Guiding, JsonObject, JsonSchema, Output, Regex, StructuralTag, Way
from providers.losses import Idle, Losses
from providers.provider import BadOption, Bent, Provider
from providers.thoughts import drop_parts, name_reasoning
from providers.told import read_error
from providers.wire import Body

# What it has no field for, with the values of each that ask for nothing; its bodies are read without a word about what is unknown.
_UNKNOWN: Idle = {
    **UNKNOWN,
    "min_tokens": (0,),
    "echo": (False,),
    "suffix": ("",),
    "grammar_lazy": (False,),
    "grammar_triggers": ([],),
}
_IDLE: Idle = {**_UNKNOWN, "n": (1,), "logprobs": (False,), "parallel_tool_calls": (True,), "repetition_penalty": (), "tools": ([],)}

_PARTS = {b'"file"': "it reads no documents.", b'"refusal"': "it has no part of that kind."}
_LLGUIDANCE = "%llguidance"
_COUNTS_ONE = "of several answers it tells the tokens of one alone, so that the others would not be counted."


class LlamaCpp(Provider):
    name: ClassVar[str] = "llamacpp"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions", "openai_embeddings", "anthropic_count_tokens")
    default_base_url: ClassVar[str | None] = None
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "llguidance": "true: it was built with LLAMA_LLGUIDANCE, so that it takes Lark grammars; without, one would end its process",
    }

    refuses = frozenset(_UNKNOWN)
    hints = HINTS
    rename: Mapping[str, str] = {"repetition_penalty": "repeat_penalty"}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        if not isinstance(options.get("llguidance", False), bool):
            raise BadOption(f"Option llguidance of provider {configured_as!r} may be true or false.")
        self._lark = bool(options.get("llguidance"))
        if "stream" not in options:
            self.streams = "only"

    @property
    def guided(self) -> guided.Ways:
        return {
            "json_object": Way("enforced", self._write),
            "json_schema": Way("enforced", self._write),
            "regex": Way("converted", self._write),
            "choice": Way("converted", self._write),
            "grammar": Way("enforced", self._write),
        }

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        """What its converter of schemas passes over is said as a grammar made of the whole schema, or else looked at in the answer."""
        output = constraint.output
        if not isinstance(output, JsonSchema) or dialect not in self.guided_in:
            return super().guiding(constraint, dialect, as_said=as_said)
        try:
            written = write_schema(as_object(output.schema), CPP)
        except Unsupported as reason:
            raise self.unsupported(constraint.field, reason.message) from None
        fields = {"json_schema": written.schema}
        if written.obeyed:
            return Guiding("enforced", output, fields)
        try:
            return Guiding("converted", output, {"grammar": guided.regex_to_gbnf(guided.schema_to_regex(output.schema, None))})
        except Unsupported:
            return Guiding("validated", output, fields)

    def _write(self, output: Output) -> Mapping[str, Any]:
        """In fields that chat and completions both obey; response_format is one of chat alone."""
        match output:
            case JsonObject():
                return {"json_schema": {"type": "object"}}
            case JsonSchema():
                return {"json_schema": write_schema(output.schema, CPP).schema}
            case Regex():
                return {"grammar": guided.regex_to_gbnf(output.pattern)}
            case Choice():
                return {"grammar": guided.choice_to_gbnf(output.options)}
            case Grammar():
                return {"grammar": self._write_grammar(output.text)}
            case StructuralTag():
                raise Unsupported("it has none.")
            case _:
                assert_never(output)

    def _write_grammar(self, text: str) -> str:
        if guided.grammar_language(text) == "gbnf":
            return text
        if not self._lark:
            raise Unsupported("it takes GBNF; Lark only where it was built with llguidance (option `llguidance`).")
        return text if text.startswith(_LLGUIDANCE) else f"{_LLGUIDANCE} {{}}\n{text}"

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        if dialect not in self.guided_in:
            return super().bend(body, dialect, may_drop, constraint)
        losses = Losses(self, body, may_drop)
        losses.leave_out(_IDLE)
        if body.said("n"):
            losses.without("n", _COUNTS_ONE)
        if dialect == "openai_completions":
            losses.one_prompt(_COUNTS_ONE)
        if dialect == "openai_chat":
            constraint = self._bend_chat(body, losses, constraint)
        elif body.said("logprobs"):
            losses.without("logprobs", "what it tells of them is not what a completion's are.")
        bent = super().bend(body, dialect, may_drop, constraint)
        bent.dropped[:0] = losses.dropped
        return bent

    def _bend_chat(self, body: Body, losses: Losses, constraint: Constraint | None) -> Constraint | None:
        losses.lone_top_logprobs()
        if body.value("parallel_tool_calls") is False and not (body.value("tools") and body.value("tool_choice") != "none"):
            del body["parallel_tool_calls"]
        elif body.value("parallel_tool_calls") is False:
            losses.without("parallel_tool_calls", "it makes several calls at once all the same.")
        if body.value("tools") and body.said("logprobs") and (self.streams == "only" or body.value("stream")):
            losses.without("logprobs", "beside tools it tells none in a stream, which is how it is asked.")
            body.pop("top_logprobs", None)
        if body.said("logprobs") and body.value("top_logprobs") == 0:
            body["top_logprobs"] = 1  # for none it leaves out those of the tokens themselves, too
        name_reasoning(body)
        drop_parts(body, _PARTS, losses)
        constraint = losses.calls_or_obeys(constraint)
        bend_strict(body, losses, constraint, CPP)
        bend_tools(body, losses, CPP)
        return constraint

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """Of its 500s some are the caller's doing, and one is about what the model wrote."""
        told = read_error(status, headers, body)
        if status == 500:
            if "does not match the expected" in told.message:
                return Unparsed(told.message, told=status)
            if any(said in told.message for said in _NOT_ITS_FAULT):
                return Refused(told.message, told=400)
        return told


_NOT_ITS_FAULT = ("input is not supported", "Failed to parse tools", "Failed to parse messages", "Unsupported tool type", "parse error")
