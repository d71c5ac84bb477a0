"""Text Generation Inference: a variant of OpenAI's chat, with outlines for constraints. In maintenance since 2025-12.

Source: router/src/lib.rs, chat.rs and validation.rs of 3.3.x, docs/sources.md#tgi; read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from providers import structured_output
from providers.adapters.logprobs import drop_lone_top_logprobs
from providers.adapters.lora import AdapterNaming, name_adapter_as_model
from providers.adapters.messages import drop_unsupported_parts, rename_developer_role
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.provider import Adapted
from providers.adapters.tools import adapt_functions
from providers.canonical.output_format import Choice, JsonSchema, OutputFormat, Regex
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy
from providers.engines.tgi.fields import (
    CHAT_NEUTRAL_VALUES,
    COMPLETIONS_NEUTRAL_VALUES,
    RESTRICTED_FIELDS,
    UNSUPPORTED_FIELDS,
    UNSUPPORTED_HINT_FIELDS,
    UNSUPPORTED_IN_COMPLETIONS,
    UNSUPPORTED_PARTS,
)
from providers.structured_output import Constraint, ConstraintSupport
from providers.structured_output.regexes import choice_to_regex

_CHAT, _COMPLETIONS = "openai_chat", "openai_completions"


def _write_json_schema(output: OutputFormat) -> dict[str, Any]:
    """The schema under `value`; OpenAI's name `json_schema` is a 422 (text-generation-inference#3276)."""
    assert isinstance(output, JsonSchema)
    fields = {"name": output.name, "schema": output.schema, "strict": output.strict}
    return {"response_format": {"type": "json_schema", "value": {key: value for key, value in fields.items() if value is not None}}}


def _write_regex(output: OutputFormat) -> dict[str, Any]:
    """The pattern without anchors: outlines matches the full text, and rejects a leading one (docs/sources.md#outlines)."""
    assert isinstance(output, Regex | Choice)
    pattern = output.pattern if isinstance(output, Regex) else choice_to_regex(output.options)
    return {"response_format": {"type": "regex", "value": _strip_anchors(pattern)}}


# Outlines ignores keywords of schemas without an error (minimum, uniqueItems, ...: docs/sources.md#outlines), and enforces regexes.
_CONSTRAINT_SUPPORT: structured_output.SupportByKind = {
    "json_schema": ConstraintSupport("validated", _write_json_schema),
    "regex": ConstraintSupport("enforced", _write_regex),
    "choice": ConstraintSupport("converted", _write_regex),
}
_TRUSTED_CONSTRAINT_SUPPORT: structured_output.SupportByKind = {
    **_CONSTRAINT_SUPPORT,
    "json_schema": ConstraintSupport("enforced", _write_json_schema),
}


class TGI(OpenAICompatible):
    """Constraints work in its chat only, and not together with tools."""

    name: ClassVar[str] = "tgi"
    thinking_fields = frozenset()
    is_self_hosted: bool = True
    dialects: ClassVar[tuple[str, ...]] = (_CHAT, _COMPLETIONS)
    constrained_dialects = frozenset({_CHAT})
    default_base_url: ClassVar[str | None] = None
    stops_on_disconnect = "always"
    # It constrains arguments to their schema in any case, but by outlines, which covers only a part.
    strict_tools: ClassVar[bool] = False
    stops_after_calls: bool = True
    lora_naming: ClassVar[AdapterNaming | None] = staticmethod(name_adapter_as_model)

    renamed_fields: Mapping[str, str] = {"max_completion_tokens": "max_tokens"}
    unsupported_fields = UNSUPPORTED_FIELDS
    hint_fields = UNSUPPORTED_HINT_FIELDS
    restricted_fields = RESTRICTED_FIELDS
    unread_parts = UNSUPPORTED_PARTS

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return _TRUSTED_CONSTRAINT_SUPPORT if self.trusted else _CONSTRAINT_SUPPORT

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        drop_policy = self.drop_policy(body, may_drop)
        drop_policy.drop_neutral(CHAT_NEUTRAL_VALUES if dialect == _CHAT else COMPLETIONS_NEUTRAL_VALUES)
        if dialect == _CHAT:
            drop_unsupported_parts(body, UNSUPPORTED_PARTS, drop_policy)
            rename_developer_role(body)
            drop_lone_top_logprobs(body, drop_policy)
            adapt_functions(body, drop_policy)
            if body.has_value("suffix"):
                drop_policy.drop_or_refuse("suffix", "its chat has no such field.")
            constraint = _choose_tools_or_constraint(body, constraint, drop_policy)
        else:
            for field in sorted(UNSUPPORTED_IN_COMPLETIONS & body.keys()):
                drop_policy.drop_or_refuse(field, "its completions have no such field.")
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = drop_policy.dropped
        if dialect == _CHAT and body.has_value("repetition_penalty"):
            body["presence_penalty"] = body.value("repetition_penalty") - 2
            del body["repetition_penalty"]
        stop = body.value("stop")
        if isinstance(stop, str):
            body["stop"] = [stop]
        return adapted


def _choose_tools_or_constraint(body: Body, constraint: Constraint | None, drop_policy: DropPolicy) -> Constraint | None:
    """Drops or refuses tools beside a response_format: it answers 422 to both together, whatever the tool choice.

    The constraint is dropped instead where the caller allows that. Returns what is left of it.
    """
    if constraint is None or constraint.output is None or not body.has_value("tools"):
        return constraint
    field = constraint.field
    if body.value("tool_choice") != "none":
        if drop_policy.may_drop(field):
            drop_policy.report_dropped(field)
            return replace(constraint, output=None)
        drop_policy.drop_path_or_refuse("tools", f"it makes no calls in a response that `{field}` constrains, and rejects both together.")
    body.pop("tools", None)
    body.pop("tool_choice", None)
    return replace(constraint, strict_tools=())


def _strip_anchors(pattern: str) -> str:
    inner = pattern.removeprefix("^")
    before = inner[:-1]
    escaped = (len(before) - len(before.rstrip("\\"))) % 2 == 1
    return before if inner.endswith("$") and not escaped else inner
