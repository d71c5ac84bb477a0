"""SGLang, and the routers of its family (sgl-router, SMG), which forward its dialect.

Only its chat and completions are used, although it has Responses and Messages too: only these two take an id by which a request can be
aborted (`rid`), are known to enforce each kind of constraint, and report errors and usage as documented; the gateway itself stores the
responses of Responses. The option `dialects` overrides this.
Sources: SGLang 0.5.23, entrypoints/openai/protocol.py and serving_chat.py; docs/sources.md#sglang; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import httpx2
import msgspec

from providers import structured_output
from providers.adapters.logprobs import drop_lone_top_logprobs
from providers.adapters.lora import AdapterNaming
from providers.adapters.messages import UNREAD_PARTS, drop_unsupported_parts, rename_developer_role, rename_reasoning
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import TEAM_CACHES_OPTION
from providers.adapters.provider import Adapted
from providers.adapters.tools import adapt_functions, check_strict_tools, drop_tools_or_constraint
from providers.adapters.urls import server_root
from providers.canonical.errors import Unsupported, UpstreamError
from providers.canonical.output_format import Choice, Grammar, OutputFormat, Regex
from providers.canonical.raw_json import Body
from providers.canonical.reclassify_error import as_overload
from providers.canonical.upstream_errors import read_error
from providers.drop_policy import DropPolicy
from providers.engines.object_schemas import write_object_response_format
from providers.engines.sglang.fields import (
    CHAT_NEUTRAL_VALUES,
    COMPLETIONS_NEUTRAL_VALUES,
    RESTRICTED_FIELDS,
    UNSUPPORTED_FIELDS,
    UNSUPPORTED_HINT_FIELDS,
    UNSUPPORTED_IN_COMPLETIONS,
)
from providers.engines.sglang.lora import name_adapter_as_suffix
from providers.engines.xgrammar import account_for_coverage
from providers.structured_output import Constraint, ConstraintPlan, ConstraintSupport
from providers.structured_output.grammar_language import detect_grammar_language
from providers.structured_output.regexes import choice_to_regex


def _write_regex(output: OutputFormat) -> dict[str, Any]:
    assert isinstance(output, Regex | Choice)
    return {"regex": output.pattern if isinstance(output, Regex) else choice_to_regex(output.options)}


def _write_ebnf(output: OutputFormat) -> dict[str, Any]:
    """xgrammar's EBNF is llama.cpp's GBNF; Lark is another language, which cannot be translated to it."""
    assert isinstance(output, Grammar)
    if detect_grammar_language(output.text) == "lark":
        raise Unsupported("its grammars are written in EBNF (or GBNF), and Lark cannot be translated to that.")
    return {"ebnf": output.text}


_CONSTRAINT_SUPPORT: structured_output.SupportByKind = {
    "json_object": ConstraintSupport("enforced", write_object_response_format, keeps_response_format=True),
    "json_schema": ConstraintSupport("enforced", write_object_response_format, keeps_response_format=True),
    "regex": ConstraintSupport("enforced", _write_regex),
    "choice": ConstraintSupport("converted", _write_regex),
    "grammar": ConstraintSupport("enforced", _write_ebnf),
    "structural_tag": ConstraintSupport("enforced", structured_output.write_guided_fields),
}


class SGLang(OpenAICompatible):
    """It enforces every kind of constraint, by xgrammar, and ignores fields that it does not know."""

    name: ClassVar[str] = "sglang"
    thinking_fields = frozenset()
    is_self_hosted: bool = True
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions", "openai_embeddings", "anthropic_count_tokens")
    default_base_url: ClassVar[str | None] = None
    stops_on_disconnect = "always"
    known_options: ClassVar[Mapping[str, str]] = {**OpenAICompatible.known_options, "team_caches": TEAM_CACHES_OPTION}
    request_id_field: ClassVar[str | None] = "rid"
    continuation_fields: ClassVar[Mapping[str, Mapping[str, Any]]] = {"openai_chat": {"continue_final_message": True}}
    continuous_usage_dialects: ClassVar[frozenset[str]] = frozenset({"openai_chat", "openai_completions"})
    salted_dialects: frozenset[str] = frozenset({"openai_chat", "openai_completions"})  # earlier versions ignore the field
    no_limit_fields: ClassVar[Mapping[str, Any] | None] = None
    lora_naming: ClassVar[AdapterNaming | None] = staticmethod(name_adapter_as_suffix)

    unsupported_fields = UNSUPPORTED_FIELDS
    hint_fields = UNSUPPORTED_HINT_FIELDS
    restricted_fields = RESTRICTED_FIELDS
    unread_parts = UNREAD_PARTS
    renamed_fields: Mapping[str, str] = {"include_stop_str_in_output": "no_stop_trim", "min_new_tokens": "min_tokens"}

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return _CONSTRAINT_SUPPORT

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        plan = super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)
        return account_for_coverage(plan, constraint, _CONSTRAINT_SUPPORT, trusted=self.trusted)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        drop_policy = self.drop_policy(body, may_drop)
        if dialect in ("openai_chat", "openai_completions"):
            drop_policy.drop_neutral(CHAT_NEUTRAL_VALUES if dialect == "openai_chat" else COMPLETIONS_NEUTRAL_VALUES)
            if body.value("top_k") == 0:
                body["top_k"] = -1  # off, as 0 is for vLLM and llama.cpp; SGLang answers 400 to 0
        if dialect == "openai_chat":
            constraint = drop_tools_or_constraint(body, constraint, drop_policy)
            _adapt_chat_body(body, drop_policy)
            check_strict_tools(drop_policy, constraint, trusted=self.trusted)
        elif dialect == "openai_completions":
            for field in sorted(UNSUPPORTED_IN_COMPLETIONS & body.keys()):
                drop_policy.drop_or_refuse(field, "its completions have no such field.")
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = drop_policy.dropped
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """A router answers 408 for a request that waited too long in its queue (SMG; docs/sources.md#routers): that is an overload."""
        error = read_error(status, headers, body)
        return as_overload(error) if status == 408 else error

    def abort_request(self, base_url: str, id: str) -> tuple[httpx2.URL, bytes] | None:
        """Up to 0.5.2x requests ran to their last token after the connection closed (sgl-project/sglang#36333, #36475).

        Each of several prompts or choices in one request gets an id of its own there: those are stopped only by closing.
        """
        return httpx2.URL(server_root(base_url) + "/abort_request"), msgspec.json.encode({"rid": id})


def _adapt_chat_body(body: Body, drop_policy: DropPolicy) -> None:
    if "enable_thinking" in body:
        # Templates read either name; SGLang itself sets both by reasoning_effort.
        thinking = body.pop("enable_thinking")
        body["chat_template_kwargs"] = {"thinking": thinking, "enable_thinking": thinking, **(body.value("chat_template_kwargs") or {})}
    drop_lone_top_logprobs(body, drop_policy)
    adapt_functions(body, drop_policy)
    rename_reasoning(body)
    rename_developer_role(body)
    drop_unsupported_parts(body, UNREAD_PARTS, drop_policy)
    if body.value("parallel_tool_calls") is False:
        if body.value("tools") and body.value("tool_choice") != "none":
            # Few of its tool parsers have a grammar for it; the others ignore it (function_call/function_call_parser.py).
            drop_policy.drop_or_refuse("parallel_tool_calls", "with most of its tool parsers it makes several calls at once all the same.")
        else:
            del body["parallel_tool_calls"]
