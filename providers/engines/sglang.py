"""SGLang, and the routers of its family (sgl-router, SMG), which pass its dialect on.

Asked by chat and completions alone, although it speaks Responses and Messages too: only these two take an id by which a request can be
aborted (`rid`), are known to obey each kind of constraint, and answer errors and usage as the reference tells; answers of Responses are
kept by us, not by it. An option `dialects` says otherwise.
Sources: SGLang 0.5.23, entrypoints/openai/protocol.py and serving_chat.py; /reference/engines.md parts 1.2, 2 and 3; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import httpx
import msgspec
from msgspec.structs import replace

from providers import guided
from providers.engines.xgrammar import honest
from providers.errors import Unsupported, UpstreamError
from providers.guided import Constraint, Grammar, Guiding, JsonSchema, Output, Regex, Way
from providers.losses import IDLE, UNKNOWN, UNKNOWN_HINTS, Idle, Losses
from providers.provider import Bent, Provider, server_root
from providers.thoughts import drop_parts, name_reasoning, name_system
from providers.told import as_overload, read_error
from providers.tools import bend_functions, bend_strict
from providers.wire import NULL, Body

# Typed there, so that null, which means not said to callers, would be a 400.
_NOT_NULL = (
    *("frequency_penalty", "presence_penalty", "n", "logprobs", "echo", "parallel_tool_calls", "continue_final_message", "ignore_eos"),
    *("min_tokens", "min_new_tokens", "skip_special_tokens", "no_stop_trim", "include_stop_str_in_output"),
    *("separate_reasoning", "stream_reasoning"),
)
_NOT_NULL_IN_COMPLETIONS = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_IDLE: Idle = {
    **dict.fromkeys(_NOT_NULL, ()),
    **IDLE,
    "spaces_between_special_tokens": (True,),
    "enable_thinking": (),
}
_IDLE_IN_COMPLETIONS: Idle = {**_IDLE, **dict.fromkeys(_NOT_NULL_IN_COMPLETIONS, ())}

# Of these its completions have no field.
_CHAT_ALONE = frozenset(
    {
        *("tools", "tool_choice", "parallel_tool_calls", "top_logprobs", "reasoning_effort", "chat_template_kwargs", "enable_thinking"),
        *("continue_final_message", "separate_reasoning", "stream_reasoning"),
    }
)

_PARTS = {b'"file"': "it reads no documents.", b'"refusal"': "it has no part of that kind."}


def _asked_in_json(output: Output) -> dict[str, Any]:
    """Schemas are objects there: `true` is said as the schema of anything, `false` cannot be met."""
    if isinstance(output, JsonSchema) and bytes(output.schema).strip() in (b"true", b"false"):
        if bytes(output.schema).strip() == b"false":
            raise Unsupported("no answer is valid by the schema `false`.")
        output = replace(output, schema=msgspec.Raw(b"{}"))
    return guided.as_response_format(output)


def _as_regex(output: Output) -> dict[str, Any]:
    assert isinstance(output, Regex | guided.Choice)
    return {"regex": output.pattern if isinstance(output, Regex) else guided.choice_to_regex(output.options)}


def _as_ebnf(output: Output) -> dict[str, Any]:
    """Xgrammar's EBNF is llama.cpp's GBNF; Lark is another language, and what it says cannot be said in that."""
    assert isinstance(output, Grammar)
    if guided.grammar_language(output.text) == "lark":
        raise Unsupported("its grammars are written in EBNF (or GBNF), and Lark cannot be translated to that.")
    return {"ebnf": output.text}


_WAYS: guided.Ways = {
    "json_object": Way("enforced", _asked_in_json, plain=True),
    "json_schema": Way("enforced", _asked_in_json, plain=True),
    "regex": Way("enforced", _as_regex),
    "choice": Way("converted", _as_regex),
    "grammar": Way("enforced", _as_ebnf),
    "structural_tag": Way("enforced", guided.as_guided_fields),
}


class SGLang(Provider):
    name: ClassVar[str] = "sglang"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions", "openai_embeddings", "anthropic_count_tokens")
    default_base_url: ClassVar[str | None] = None
    id_field: ClassVar[str | None] = "rid"
    no_limit: ClassVar[Mapping[str, Any] | None] = None

    # `mm_processor_kwargs` is read for one family of models alone (option `accepts`).
    refuses = UNKNOWN | {"mm_processor_kwargs", "spaces_between_special_tokens"}
    hints = UNKNOWN_HINTS
    rename: Mapping[str, str] = {"include_stop_str_in_output": "no_stop_trim", "min_new_tokens": "min_tokens"}

    @property
    def guided(self) -> guided.Ways:
        return _WAYS

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        return honest(super().guiding(constraint, dialect, as_said=as_said), constraint, _WAYS, vouched=self.vouched)

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        losses = Losses(self, body, may_drop)
        if dialect in ("openai_chat", "openai_completions"):
            losses.leave_out(_IDLE if dialect == "openai_chat" else _IDLE_IN_COMPLETIONS)
            if body.value("top_k") == 0:
                body["top_k"] = -1  # off, as vLLM and llama.cpp say it; SGLang answers it with 400
        if dialect == "openai_chat":
            constraint = losses.calls_or_obeys(constraint)
            _bend_chat(body, losses)
            bend_strict(losses, constraint, vouched=self.vouched)
        elif dialect == "openai_completions":
            for field in sorted(_CHAT_ALONE & body.keys()):
                losses.without(field, "its completions have no such field.")
            most = body.pop("max_completion_tokens", NULL)
            if most != NULL:
                body["max_tokens"] = most
        bent = super().bend(body, dialect, may_drop, constraint)
        bent.dropped[:0] = losses.dropped
        return bent

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """A router's 408 says that a request has waited too long in its queue (SMG; /reference/engines.md 4.3)."""
        error = read_error(status, headers, body)
        return as_overload(error) if status == 408 else error

    def abort(self, base_url: str, id: str) -> tuple[httpx.URL, bytes] | None:
        """Up to 0.5.2x requests went on to their last token after the connection closed (sgl-project/sglang#36333, #36475).

        Of several prompts or choices in one request it knows each by an id of its own: those are stopped by closing alone.
        """
        return httpx.URL(server_root(base_url) + "/abort_request"), msgspec.json.encode({"rid": id})


def _bend_chat(body: Body, losses: Losses) -> None:
    if "enable_thinking" in body:
        # Templates look for either name; SGLang itself sets both by reasoning_effort.
        said = body.pop("enable_thinking")
        body["chat_template_kwargs"] = {"thinking": said, "enable_thinking": said, **(body.value("chat_template_kwargs") or {})}
    losses.lone_top_logprobs()
    bend_functions(body, losses)
    name_reasoning(body)
    name_system(body)
    drop_parts(body, _PARTS, losses)
    if body.value("parallel_tool_calls") is False:
        if body.value("tools") and body.value("tool_choice") != "none":
            # Of its parsers few have a grammar that says so; for the others it goes without (function_call/function_call_parser.py).
            losses.without("parallel_tool_calls", "with most of its tool parsers it makes several calls at once all the same.")
        else:
            del body["parallel_tool_calls"]
