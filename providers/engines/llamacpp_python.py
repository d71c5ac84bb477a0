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

from providers import guided
from providers.engines.llamacpp_fields import HINTS, UNKNOWN
from providers.engines.llamacpp_schemas import PYTHON, as_object, write_schema
from providers.engines.llamacpp_tools import bend_strict, bend_tools, read_choice
from providers.errors import Refused, Unsupported, UpstreamError
from providers.guided import Choice, Constraint, Grammar, Guiding, JsonObject, JsonSchema, Output, Regex, StructuralTag, Way
from providers.losses import Idle, Losses
from providers.provider import BadOption, Bent, Provider
from providers.rest import as_raw
from providers.thoughts import drop_parts
from providers.told import read_error
from providers.wire import NULL, UNREADABLE, Body

# What it has no field for, with the values of each that ask for nothing; its bodies are read without a word about what is unknown.
_UNKNOWN: Idle = {
    **UNKNOWN,
    "ignore_eos": (False,),
    "typical_p": (1,),
    "n": (1,),
    "chat_template_kwargs": ({},),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "reasoning_effort": (),
}
_IDLE: Idle = {
    **_UNKNOWN,
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

_PARTS = {b'"file"': "it reads no documents.", b'"refusal"': "it has no part of that kind.", b'"input_audio"': "it does not hear."}
_IMAGES = {b'"image_url"': "without a `clip_model_path` it passes over images without a word (option `vision`)."}

# Its 500s that are the caller's doing: every exception becomes one. Left of `:` what the message has in it.
_ASKED_WRONG = ("validation error", "Tool choice", "Invalid logit_bias", "could not broadcast", "llama_decode returned 1", "exceed context")

_messages = msgspec.json.Decoder(list[dict[str, Raw]]).decode


class LlamaCppPython(Provider):
    name: ClassVar[str] = "llamacpp_python"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions", "openai_embeddings")
    default_base_url: ClassVar[str | None] = None
    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "calls": "true: its chat_format lets the model call tools of its own accord (functionary, chatml-function-calling)",
        "vision": "true: it was started with a clip_model_path",
    }

    refuses = frozenset(_UNKNOWN)
    hints = HINTS
    rename: Mapping[str, str] = {"repetition_penalty": "repeat_penalty", "max_completion_tokens": "max_tokens"}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        super().__init__(configured_as, options, version, base_url)
        for option in ("calls", "vision"):
            if not isinstance(options.get(option, False), bool):
                raise BadOption(f"Option {option} of provider {configured_as!r} may be true or false.")
        if "stream" not in options:
            self.streams = "only"
        self.stream_usage = False

    @property
    def guided(self) -> guided.Ways:
        return {
            "json_object": Way("validated", _write),
            "json_schema": Way("validated", _write),
            "regex": Way("converted", _write),
            "choice": Way("converted", _write),
            "grammar": Way("enforced", _write),
        }

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        """Of a schema, what its converter passes over is said as a grammar of ours, or else looked at in the answer."""
        output = constraint.output
        if dialect == "openai_completions" and isinstance(output, JsonObject):
            raise self.unsupported(constraint.field, "its completions have no response_format; its chat has.")
        if not isinstance(output, JsonSchema) or dialect not in self.guided_in:
            return super().guiding(constraint, dialect, as_said=as_said)
        try:
            written = write_schema(as_object(output.schema), PYTHON)
        except Unsupported as reason:
            raise self.unsupported(constraint.field, reason.message) from None
        fields = {"response_format": {"type": "json_object", "schema": written.schema}}
        if written.obeyed and dialect == "openai_chat":
            return Guiding("enforced", output, fields)
        try:
            return Guiding("converted", output, {"grammar": guided.regex_to_gbnf(guided.schema_to_regex(output.schema, None))})
        except Unsupported as reason:
            if dialect != "openai_chat":
                raise self.unsupported(constraint.field, f"its completions take grammars alone, and {reason.message}") from None
            return Guiding("validated", output, fields)

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        if dialect not in self.guided_in:
            return super().bend(body, dialect, may_drop, constraint)
        losses = Losses(self, body, may_drop)
        losses.leave_out(_IDLE)
        top_k = body.value("top_k")
        if isinstance(top_k, int) and top_k < 0:
            body["top_k"] = 0  # off; it answers negative numbers with 500, and left out would mean 40
        if body.said("max_completion_tokens"):
            body.pop("max_tokens", None)
        if dialect == "openai_completions":
            losses.one_prompt("it answers several with a 500.")
        if dialect == "openai_chat":
            constraint = self._bend_chat(body, losses, constraint)
        bent = super().bend(body, dialect, may_drop, constraint)
        bent.dropped[:0] = losses.dropped
        return bent

    def _bend_chat(self, body: Body, losses: Losses, constraint: Constraint | None) -> Constraint | None:
        if body.value("parallel_tool_calls") is False and not body.said("tools"):
            del body["parallel_tool_calls"]
        if body.value("logprobs") is True and not body.value("top_logprobs"):
            body["top_logprobs"] = 1  # for none it tells no logprobs at all
        losses.lone_top_logprobs()
        drop_parts(body, _PARTS if self.options.get("vision") else {**_PARTS, **_IMAGES}, losses)
        _plain_messages(body)
        constraint = losses.calls_or_obeys(constraint)
        if body.said("tools"):
            self._bend_choice(body, losses)
        bend_strict(body, losses, constraint, PYTHON)
        names = bend_tools(body, losses, PYTHON)
        if names and body.value("tool_choice") == "required":
            body["tool_choice"] = {"type": "function", "function": {"name": names[0]}}
        return constraint

    def _bend_choice(self, body: Body, losses: Losses) -> None:
        """A named tool is called, once; nothing else is, whatever is asked, unless its chat_format does that."""
        mode, names = read_choice(body.value("tool_choice"))
        one = len(body.value("tools") if names is None else names) == 1
        if mode == "required" and not one:
            losses.without("tool_choice", "it calls a tool that is named, or the only one; which one of several it cannot choose.")
        elif mode == "auto" and not self.options.get("calls"):
            losses.without("tools", "it calls a tool that is named, and none of its own accord (option `calls`).")
            body.pop("tool_choice", None)
        body.pop("parallel_tool_calls", None)  # it makes one call

    def enquiry(self, raw: bytes) -> bytes | None:
        """Where a stream is refused (a prompt too long), it is a 200 that ends; the same whole, of one token, is told the reason."""
        body = Body.read(raw)
        body["stream"], body["max_tokens"] = False, 1
        return body.write()

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        told = read_error(status, headers, body)
        if status == 500 and any(said in told.message for said in _ASKED_WRONG):
            return Refused(told.message, told=400, param=told.param)
        return told


def _write(output: Output) -> Mapping[str, Any]:
    match output:
        case JsonObject():
            return {"response_format": {"type": "json_object"}}
        case JsonSchema():
            return {"response_format": {"type": "json_object", "schema": write_schema(output.schema, PYTHON).schema}}
        case Regex():
            return {"grammar": guided.regex_to_gbnf(output.pattern)}
        case Choice():
            return {"grammar": guided.choice_to_gbnf(output.options)}
        case Grammar():
            if guided.grammar_language(output.text) != "gbnf":
                raise Unsupported("it takes GBNF alone.")
            return {"grammar": output.text}
        case StructuralTag():
            raise Unsupported("it has none.")
        case _:
            assert_never(output)


def _plain_messages(body: Body) -> None:
    """As it reads them: it knows no `developer`, which is OpenAI's newer name for the system, and texts as strings alone."""
    raw = bytes(as_raw(body["messages"])) if body.said("messages") else b""
    if not any(odd in raw for odd in (b'"developer"', b'"content":[', b'"content": [', b'"content":null', b'"content": null')):
        return
    try:
        messages = _messages(raw)
        for message in messages:
            if message.get("role") == Raw(b'"developer"'):
                message["role"] = Raw(b'"system"')
            content = message.get("content", NULL)
            if content == NULL:
                message.pop("content", None)
            elif bytes(content)[:1] == b"[":
                message["content"] = _plain(content)
    except UNREADABLE:
        return
    body["messages"] = messages


def _plain(content: Raw) -> Raw:
    """Parts that are all text, as one."""
    parts = msgspec.json.decode(content, type=list[dict[str, Any]])
    if any(part.get("type") != "text" for part in parts):
        return content
    return Raw(msgspec.json.encode("".join(part["text"] for part in parts)))
