"""OpenAICompatible: an adapter for OpenAI's dialects, and the base class of the engines and hosts that speak them."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import httpx2
from msgspec.structs import replace

from providers import structured_output
from providers.adapters.content_parts import drop_unsupported_parts
from providers.adapters.provider import Adapted, Provider, remove_gateway_fields
from providers.canonical.chat import ChatRequest
from providers.canonical.errors import Unsupported, UpstreamError
from providers.canonical.output_format import JsonSchema, OutputFormat, Regex, output_kind
from providers.canonical.raw_json import NULL, Body
from providers.dialects.openai_responses import remove_encrypted_reasoning
from providers.drop_policy import DropPolicy
from providers.fields import RESTRICTED_FIELDS
from providers.structured_output import Constraint, ConstraintPlan, ConstraintSupport
from providers.structured_output.schema_regex import schema_to_regex
from providers.structured_output.write_constraint_fields import display_name, is_sent_as_strict

# The dialects in which fields have OpenAI's names, so that the tables of fields are about them.
OPENAI_SHAPED = frozenset({"openai_chat", "openai_completions"})

_CONSTRAINT_FIELDS = structured_output.CONSTRAINT_FIELDS | {"response_format"}

# OpenAI's response_format, for a host that is trusted to enforce it, and for one whose responses are validated.
OPENAI_ENFORCED: structured_output.SupportByKind = {
    "json_object": ConstraintSupport("enforced", structured_output.write_response_format, keeps_response_format=True),
    "json_schema": ConstraintSupport("enforced", structured_output.write_response_format, keeps_response_format=True),
}
OPENAI_VALIDATED: structured_output.SupportByKind = {
    kind: replace(support, enforcement="validated") for kind, support in OPENAI_ENFORCED.items()
}


class OpenAICompatible(Provider):
    """Whatever speaks OpenAI's dialects. Subclasses state what their host or engine renames, lacks, ignores and enforces."""

    name: ClassVar[str] = "openai"
    dialects: ClassVar[tuple[str, ...]] = ("openai_chat", "openai_completions", "openai_embeddings")
    default_base_url: ClassVar[str | None] = "https://api.openai.com/v1"
    # OpenAI's default for completions is 16 tokens; vLLM, LMDeploy and llama-cpp-python take null for no limit.
    no_limit_fields: ClassVar[Mapping[str, Any] | None] = {"max_tokens": None}

    constrained_dialects: frozenset[str] = OPENAI_SHAPED
    # Fields of engines for constraints that this one has too: a constraint in them is left as the caller wrote it.
    own_constraint_fields: frozenset[str] = frozenset()
    unsupported_fields: frozenset[str] = frozenset(
        {"chat_template", "chat_template_kwargs", "mm_processor_kwargs", "guided_whitespace_pattern", "do_preprocess"}
    )
    hint_fields: frozenset[str] = frozenset({"guided_decoding_backend"})
    # Types of parts that its chat does not read, in their quotes, with the reason: refused in a chat that is translated.
    unread_parts: Mapping[bytes, str] = {}
    # What the server is, is not known.
    restricted_fields: Mapping[str, str] = RESTRICTED_FIELDS

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        host = "api.openai.com" if base_url is None else httpx2.URL(base_url).host
        self._is_openai_host = self.name == "openai" and (host == "api.openai.com" or host.endswith(".api.openai.com"))
        if self.is_openai_host:
            self.constrained_dialects |= {"openai_responses"}

    @property
    def is_openai_host(self) -> bool:
        return self._is_openai_host

    @property
    def spoken_dialects(self) -> tuple[str, ...]:
        """Its dialects, best first. OpenAI itself speaks Responses too, which loses less reasoning than chat does."""
        if self._dialects:
            return self._dialects
        return ("openai_responses", *self.dialects) if self.is_openai_host else self.dialects

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        """OpenAI's response_format. Whether an unknown server enforces a schema is not known: its responses are validated."""
        return OPENAI_ENFORCED if self.trusted or self.is_openai_host else OPENAI_VALIDATED

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        output = constraint.output
        if output is None or dialect not in OPENAI_SHAPED:
            return super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)
        if dialect == "openai_completions" and dialect not in self.constrained_dialects:
            raise self.unsupported_error(constraint.field, "its completions have no field for it; its chat has.")
        support = self.constraint_support.get(output_kind(output))
        if support is None:
            raise self.unsupported_error(constraint.field, f"it has no way to hold an answer to a {display_name(output)}.")
        enforcement = support.enforcement if self._is_enforced(output) else "validated"
        if in_own_fields or (support.keeps_response_format and constraint.is_openai_format):
            return ConstraintPlan(enforcement, output, None, support.is_json_string)
        try:
            return ConstraintPlan(enforcement, output, support.write(output), support.is_json_string)
        except Unsupported as error:
            raise self.unsupported_error(constraint.field, error.message) from None

    def _is_enforced(self, output: OutputFormat) -> bool:
        """OpenAI enforces only strict schemas; a schema without a name, which came in an engine's field, is sent as a strict one.

        Source: https://platform.openai.com/docs/guides/structured-outputs, read 2026-11.
        """
        return not self.is_openai_host or not isinstance(output, JsonSchema) or is_sent_as_strict(output)

    def adapt_chat(self, chat: ChatRequest, dialect: str, drop_policy: DropPolicy) -> ChatRequest:
        """Refuses parts that it does not read here, where their places are the caller's: in the body that is written they are others."""
        if dialect != "openai_chat" or not self.unread_parts:
            return chat
        return drop_unsupported_parts(chat, {kind.strip(b'"').decode(): why for kind, why in self.unread_parts.items()}, drop_policy)

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        if dialect not in OPENAI_SHAPED:
            return super().adapt_request(body, dialect, may_drop, constraint)
        remove_gateway_fields(body)
        adapted = Adapted([], None)
        if constraint is not None or not (self.unsupported_fields.isdisjoint(body) and self.hint_fields.isdisjoint(body)):
            drop_policy = self.drop_policy(body, may_drop)
            if constraint is not None and constraint.whitespace is not None:
                constraint = self._apply_whitespace(body, constraint, drop_policy)
            self._drop_unsupported(body, drop_policy)
            plan = None if constraint is None else self._apply_constraint(body, dialect, constraint, drop_policy)
            adapted = Adapted(drop_policy.dropped, plan)
        for openai_name, host_name in self.renamed_fields.items():
            value = body.pop(openai_name, NULL)
            if value != NULL:
                body[host_name] = value
        return adapted

    def _drop_unsupported(self, body: Body, drop_policy: DropPolicy) -> None:
        for key in sorted((self.unsupported_fields | self.hint_fields) & body.keys()):
            if body[key] == NULL:
                del body[key]
            elif key in self.hint_fields:
                drop_policy.drop_hint(key)
            else:
                drop_policy.drop_missing(key, "it has no such field, or does nothing about it.")

    def _apply_whitespace(self, body: Body, constraint: Constraint, drop_policy: DropPolicy) -> Constraint:
        """The constraint with its white-space pattern: unchanged, or as a regex, for an engine that ignores such patterns.

        Raises Unsupported where there is no such regex, unless the caller allows that the pattern is dropped.
        """
        assert constraint.whitespace is not None
        field, pattern = constraint.whitespace
        output = constraint.output
        if "guided_whitespace_pattern" not in self.unsupported_fields and any(map(body.has_value, {field} | self.own_constraint_fields)):
            return constraint
        if "regex" not in self.constraint_support or not isinstance(output, JsonSchema):
            return self._drop_whitespace(body, constraint, drop_policy, "it supports neither a white-space pattern nor a regex.")
        try:
            regex = Regex(constraint.whitespace_regex or schema_to_regex(output.schema, pattern))
        except Unsupported as error:
            return self._drop_whitespace(body, constraint, drop_policy, error.message)
        body.pop(field, None)
        return replace(constraint, output=regex, is_openai_format=False)

    def _apply_constraint(self, body: Body, dialect: str, constraint: Constraint, drop_policy: DropPolicy) -> ConstraintPlan | None:
        """Plans the constraint, and writes it in the fields of the plan."""
        # A schema whose white space was applied is a regex by now, which no field of the body holds.
        is_converted = constraint.whitespace is not None and isinstance(constraint.output, Regex)
        in_own_fields = not is_converted and any(map(body.has_value, self.own_constraint_fields))
        plan = self._plan_or_drop_constraint(body, dialect, constraint, drop_policy, in_own_fields=in_own_fields)
        if is_converted and plan is not None and plan.enforcement == "enforced":
            plan = replace(plan, enforcement="converted")
        if plan is None or plan.fields is not None:
            for key in _CONSTRAINT_FIELDS & body.keys():
                del body[key]
            body.update({} if plan is None else plan.fields or {})
        return plan

    def body_after_refusal(self, error: UpstreamError, dialect: str, raw: bytes) -> bytes | None:
        """A Responses body without encrypted reasoning, which models that do not reason refuse.

        OpenAI's message is "Encrypted content is not supported with this model."
        """
        if dialect != "openai_responses" or error.upstream_status != 400:
            return None
        message = error.message.lower()
        if "encrypted content" not in message or "not supported" not in message:
            return None
        body = Body.read(raw)
        return body.write() if remove_encrypted_reasoning(body) else None
