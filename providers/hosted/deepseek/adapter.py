"""DeepSeek: chat, Responses and Messages. Thinking is on by default. Its chat has JSON mode alone, its Responses take JSON schemas."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import httpx2
import msgspec
from msgspec.structs import replace

from providers import structured_output
from providers.adapters.options import InvalidOption
from providers.adapters.provider import Adapted, Provider
from providers.adapters.urls import server_root
from providers.canonical.errors import Unsupported
from providers.canonical.extra_fields import as_raw
from providers.canonical.instructions import describe_output
from providers.canonical.output_format import JsonSchema, OutputFormat
from providers.canonical.raw_json import Body
from providers.dialect_rule import DialectRule
from providers.hosted.deepseek.anthropic_messages import adapt_messages_body
from providers.hosted.deepseek.thinking import adapt_thinking
from providers.hosted.host_spec_provider import HostSpecProvider
from providers.hosted.rules.claude_options import read_defaults
from providers.profiles.claude.request_body import DEFAULT_MAX_TOKENS
from providers.structured_output import Constraint, ConstraintPlan, ConstraintSupport

_CHAT, _RESPONSES = "openai_chat", "openai_responses"
# Chat answers 400 to a schema, "This response_format type is unavailable now": pydantic-ai 2.68, providers/deepseek.py, read 2026-11.
_SCHEMAS_IN_RESPONSES = DialectRule(
    _RESPONSES,
    frozenset({"response_format", "output_config", "output_format", *structured_output.CONSTRAINT_FIELDS}),
    lambda chat: isinstance(chat.output, JsonSchema),
    is_only=False,
)
_INSTRUCTION_ROLES = ("system", "developer")

_decode_messages = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_message = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class DeepSeek(HostSpecProvider, host="deepseek"):
    """Tools are strict only in its beta API: https://api-docs.deepseek.com/guides/tool_calls, read 2026-11."""

    constrained_dialects = frozenset({_CHAT, _RESPONSES})

    known_options: ClassVar[Mapping[str, str]] = {
        **Provider.known_options,
        "max_tokens": f"the token limit of responses in Messages for callers who set none ({DEFAULT_MAX_TOKENS})",
        "beta": "true: chat requests go to /beta, where `strict` of tools is enforced",
    }

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises InvalidOption."""
        super().__init__(configured_as, options, version, base_url)
        if not isinstance(options.get("beta", False), bool):
            raise InvalidOption("Option beta must be true or false.")
        self._uses_beta = bool(options.get("beta"))
        self._defaults = read_defaults(options)

    def dialect_rule_for(self, model: str) -> DialectRule | None:
        """Returns None where Responses are not spoken, and for the beta, whose chat alone enforces the schemas of tools."""
        return None if self._uses_beta or _RESPONSES not in self.spoken_dialects else _SCHEMAS_IN_RESPONSES

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        """That a schema is enforced in Responses was never recorded."""
        plan = super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)
        return plan if plan is None or self.trusted else replace(plan, enforcement="validated")

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return {**super().constraint_support, "json_schema": ConstraintSupport("validated", _write_json_mode)}

    def url(self, base_url: str, dialect: str, model: str = "", stream: bool = False) -> httpx2.URL:
        root = server_root(base_url)
        if dialect == "anthropic_messages":
            return httpx2.URL(f"{root}/anthropic/v1/messages")
        if dialect == "openai_chat" and self._uses_beta:
            return httpx2.URL(f"{root}/beta/chat/completions")
        return super().url(base_url, dialect, model, stream)

    def headers(self, credential: str | None, dialect: str = "") -> list[tuple[str, str]]:
        if dialect != "anthropic_messages":
            return super().headers(credential, dialect)
        return [*([("x-api-key", credential)] if credential else []), ("anthropic-version", "2023-06-01")]

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        drop_policy = self.drop_policy(body, may_drop)
        may_think = adapt_thinking(body, dialect, drop_policy)
        if dialect == "anthropic_messages":
            adapt_messages_body(body, drop_policy, may_think=may_think)
            self._defaults.fill_in(body)
        for path, _ in () if constraint is None or (self._uses_beta and dialect == "openai_chat") else constraint.strict_tools:
            drop_policy.drop_path_or_refuse(
                path.rpartition(".")[0] + ".strict", "only its beta chat (option `beta`) enforces the schema of a tool's arguments."
            )
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        if dialect == "openai_chat" and adapted.constraint_plan is not None and isinstance(adapted.constraint_plan.output, JsonSchema):
            _add_schema_instruction(body, adapted.constraint_plan.output)
        adapted.dropped[:0] = drop_policy.dropped
        return adapted


def _write_json_mode(output: OutputFormat) -> Mapping[str, Any]:
    """JSON mode, for objects only; the schema itself goes into an instruction. Raises Unsupported for a schema of something else."""
    if isinstance(output, JsonSchema):
        schema: Any = msgspec.json.decode(output.schema)
        if schema is False or (isinstance(schema, dict) and schema.get("type", "object") not in ("object", ["object"])):  # pyright: ignore[reportUnknownMemberType]
            raise Unsupported("it only supports JSON objects, and this schema describes something else.")
    return {"response_format": {"type": "json_object"}}


def _add_schema_instruction(body: Body, output: JsonSchema) -> None:
    """Adds the schema as a system message after the existing instructions."""
    messages = _decode_messages(as_raw(body["messages"]))
    extended: list[Any] = [*messages]
    first_turn = next(
        (index for index, each in enumerate(messages) if msgspec.json.decode(_decode_message(each)["role"]) not in _INSTRUCTION_ROLES),
        len(messages),
    )
    extended.insert(first_turn, {"role": "system", "content": describe_output(output)})
    body["messages"] = extended
