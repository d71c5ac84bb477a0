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

from providers import structured_output
from providers.adapters.messages import drop_unsupported_parts, rename_developer_role, rename_reasoning
from providers.adapters.provider import Adapted, Provider, server_root
from providers.adapters.tools import adapt_functions, check_strict_tools
from providers.adapters.unsupported_fields import NEUTRAL_VALUES, UNKNOWN_FIELDS, UNKNOWN_HINTS, NeutralValues, UnsupportedFields
from providers.canonical.errors import Unsupported, UpstreamError
from providers.canonical.raw_json import NULL, Body
from providers.canonical.upstream_errors import as_overload, read_error
from providers.engines.xgrammar import account_for_coverage
from providers.structured_output import Constraint, ConstraintPlan, ConstraintSupport, Grammar, JsonSchema, OutputFormat, Regex

# Typed there, so that null, which means not said to callers, would be a 400.
_NOT_NULLABLE = (
    *("frequency_penalty", "presence_penalty", "n", "logprobs", "echo", "parallel_tool_calls", "continue_final_message", "ignore_eos"),
    *("min_tokens", "min_new_tokens", "skip_special_tokens", "no_stop_trim", "include_stop_str_in_output"),
    *("separate_reasoning", "stream_reasoning"),
)
_NOT_NULLABLE_IN_COMPLETIONS = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_CHAT_NEUTRAL_VALUES: NeutralValues = {
    **dict.fromkeys(_NOT_NULLABLE, ()),
    **NEUTRAL_VALUES,
    "spaces_between_special_tokens": (True,),
    "enable_thinking": (),
}
_COMPLETIONS_NEUTRAL_VALUES: NeutralValues = {**_CHAT_NEUTRAL_VALUES, **dict.fromkeys(_NOT_NULLABLE_IN_COMPLETIONS, ())}

# Of these its completions have no field.
_CHAT_ONLY_FIELDS = frozenset(
    {
        *("tools", "tool_choice", "parallel_tool_calls", "top_logprobs", "reasoning_effort", "chat_template_kwargs", "enable_thinking"),
        *("continue_final_message", "separate_reasoning", "stream_reasoning"),
    }
)

_UNSUPPORTED_PARTS = {b'"file"': "it reads no documents.", b'"refusal"': "it has no part of that kind."}


def _write_json_format(output: OutputFormat) -> dict[str, Any]:
    """Schemas are objects there: `true` is said as the schema of anything, `false` cannot be met."""
    if isinstance(output, JsonSchema) and bytes(output.schema).strip() in (b"true", b"false"):
        if bytes(output.schema).strip() == b"false":
            raise Unsupported("no answer is valid by the schema `false`.")
        output = replace(output, schema=msgspec.Raw(b"{}"))
    return structured_output.write_response_format(output)


def _write_regex(output: OutputFormat) -> dict[str, Any]:
    assert isinstance(output, Regex | structured_output.Choice)
    return {"regex": output.pattern if isinstance(output, Regex) else structured_output.choice_to_regex(output.options)}


def _write_ebnf(output: OutputFormat) -> dict[str, Any]:
    """Xgrammar's EBNF is llama.cpp's GBNF; Lark is another language, and what it says cannot be said in that."""
    assert isinstance(output, Grammar)
    if structured_output.detect_grammar_language(output.text) == "lark":
        raise Unsupported("its grammars are written in EBNF (or GBNF), and Lark cannot be translated to that.")
    return {"ebnf": output.text}


_CONSTRAINT_SUPPORT: structured_output.SupportByKind = {
    "json_object": ConstraintSupport("enforced", _write_json_format, keeps_response_format=True),
    "json_schema": ConstraintSupport("enforced", _write_json_format, keeps_response_format=True),
    "regex": ConstraintSupport("enforced", _write_regex),
    "choice": ConstraintSupport("converted", _write_regex),
    "grammar": ConstraintSupport("enforced", _write_ebnf),
    "structural_tag": ConstraintSupport("enforced", structured_output.write_guided_fields),
}


class SGLang(Provider):
    name: ClassVar[str] = "sglang"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions", "openai_embeddings", "anthropic_count_tokens")
    default_base_url: ClassVar[str | None] = None
    request_id_field: ClassVar[str | None] = "rid"
    no_limit_fields: ClassVar[Mapping[str, Any] | None] = None

    # `mm_processor_kwargs` is read for one family of models alone (option `accepts`).
    unsupported_fields = UNKNOWN_FIELDS | {"mm_processor_kwargs", "spaces_between_special_tokens"}
    hint_fields = UNKNOWN_HINTS
    renamed_fields: Mapping[str, str] = {"include_stop_str_in_output": "no_stop_trim", "min_new_tokens": "min_tokens"}

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return _CONSTRAINT_SUPPORT

    def plan_constraint(self, constraint: Constraint, dialect: str, *, as_said: bool) -> ConstraintPlan | None:
        return account_for_coverage(
            super().plan_constraint(constraint, dialect, as_said=as_said), constraint, _CONSTRAINT_SUPPORT, trusted=self.trusted
        )

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        unsupported_fields = UnsupportedFields(self, body, may_drop)
        if dialect in ("openai_chat", "openai_completions"):
            unsupported_fields.drop_neutral(_CHAT_NEUTRAL_VALUES if dialect == "openai_chat" else _COMPLETIONS_NEUTRAL_VALUES)
            if body.value("top_k") == 0:
                body["top_k"] = -1  # off, as vLLM and llama.cpp say it; SGLang answers it with 400
        if dialect == "openai_chat":
            constraint = unsupported_fields.drop_tools_or_constraint(constraint)
            _adapt_chat_body(body, unsupported_fields)
            check_strict_tools(unsupported_fields, constraint, trusted=self.trusted)
        elif dialect == "openai_completions":
            for field in sorted(_CHAT_ONLY_FIELDS & body.keys()):
                unsupported_fields.drop_or_refuse(field, "its completions have no such field.")
            max_tokens = body.pop("max_completion_tokens", NULL)
            if max_tokens != NULL:
                body["max_tokens"] = max_tokens
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = unsupported_fields.dropped
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """A router's 408 says that a request has waited too long in its queue (SMG; /reference/engines.md 4.3)."""
        error = read_error(status, headers, body)
        return as_overload(error) if status == 408 else error

    def abort_request(self, base_url: str, id: str) -> tuple[httpx.URL, bytes] | None:
        """Up to 0.5.2x requests went on to their last token after the connection closed (sgl-project/sglang#36333, #36475).

        Of several prompts or choices in one request it knows each by an id of its own: those are stopped by closing alone.
        """
        return httpx.URL(server_root(base_url) + "/abort_request"), msgspec.json.encode({"rid": id})


def _adapt_chat_body(body: Body, unsupported_fields: UnsupportedFields) -> None:
    if "enable_thinking" in body:
        # Templates look for either name; SGLang itself sets both by reasoning_effort.
        thinking = body.pop("enable_thinking")
        body["chat_template_kwargs"] = {"thinking": thinking, "enable_thinking": thinking, **(body.value("chat_template_kwargs") or {})}
    unsupported_fields.drop_lone_top_logprobs()
    adapt_functions(body, unsupported_fields)
    rename_reasoning(body)
    rename_developer_role(body)
    drop_unsupported_parts(body, _UNSUPPORTED_PARTS, unsupported_fields)
    if body.value("parallel_tool_calls") is False:
        if body.value("tools") and body.value("tool_choice") != "none":
            # Of its parsers few have a grammar that says so; for the others it goes without (function_call/function_call_parser.py).
            unsupported_fields.drop_or_refuse(
                "parallel_tool_calls", "with most of its tool parsers it makes several calls at once all the same."
            )
        else:
            del body["parallel_tool_calls"]
