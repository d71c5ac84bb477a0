"""Text Generation Inference: an OpenAI chat of its own kind, with outlines behind it. In maintenance since 2025-12.

Source: router/src/lib.rs, chat.rs and validation.rs of 3.3.x, by /reference/engines.md 1.4, 2 and 3, read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from providers import structured_output
from providers.adapters.messages import drop_unsupported_parts, rename_developer_role
from providers.adapters.provider import Adapted, Provider
from providers.adapters.tools import adapt_functions
from providers.adapters.unsupported_fields import NEUTRAL_VALUES, UNKNOWN_FIELDS, UNKNOWN_HINTS, NeutralValues, UnsupportedFields
from providers.canonical.raw_json import Body
from providers.structured_output import Constraint, ConstraintSupport, OutputFormat

_CHAT, _COMPLETIONS = "openai_chat", "openai_completions"

_UNSUPPORTED_EVERYWHERE = frozenset(
    {
        *("n", "logit_bias", "top_k", "min_p", "min_tokens", "ignore_eos", "stop_token_ids", "include_stop_str_in_output"),
        *("skip_special_tokens", "spaces_between_special_tokens", "priority", "cache_salt", "lora_path", "session_id"),
        *("separate_reasoning", "enable_thinking", "chat_template_kwargs", "mm_processor_kwargs", "continue_final_message"),
        *("reasoning_effort", "presence_penalty"),
    }
)
_UNSUPPORTED_IN_COMPLETIONS = frozenset({"logprobs", "echo", "tools", "tool_choice", "parallel_tool_calls", "top_logprobs"})
_NEUTRAL_VALUES: NeutralValues = {
    **NEUTRAL_VALUES,
    "n": (1,),
    "logit_bias": ({},),
    "top_k": (-1, 0),
    "min_p": (0,),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "stop_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "priority": (0,),
    "separate_reasoning": (True,),
    "continue_final_message": (False,),
    "chat_template_kwargs": ({},),
    # Its `presence_penalty` is another thing: 2 is added, and that is the repetition penalty.
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    # It takes what is between 0 and 1, without either.
    "top_p": (1,),
    "parallel_tool_calls": (True, False),  # it makes one call
    "stop": ([],),
    "tools": ([],),
    "echo": (False,),
    "response_format": ({"type": "text"},),
}
_CHAT_NEUTRAL_VALUES: NeutralValues = {**_NEUTRAL_VALUES, "logprobs": (False,)}

_UNSUPPORTED_PARTS = {
    kind: "it reads texts and images alone." for kind in (b'"file"', b'"input_audio"', b'"refusal"', b'"video_url"', b'"audio_url"')
}


def _write_json_schema(output: OutputFormat) -> dict[str, Any]:
    """A schema under `value`, where OpenAI says `json_schema`, which it refuses with 422 (text-generation-inference#3276)."""
    assert isinstance(output, structured_output.JsonSchema)
    fields = {"name": output.name, "schema": output.schema, "strict": output.strict}
    return {"response_format": {"type": "json_schema", "value": {key: value for key, value in fields.items() if value is not None}}}


def _write_regex(output: OutputFormat) -> dict[str, Any]:
    """Without anchors: outlines matches the whole answer, and refuses a leading one (/reference/engines.md 2.5)."""
    assert isinstance(output, structured_output.Regex | structured_output.Choice)
    pattern = output.pattern if isinstance(output, structured_output.Regex) else structured_output.choice_to_regex(output.options)
    return {"response_format": {"type": "regex", "value": _strip_anchors(pattern)}}


# Outlines passes over keywords of schemas without a word (minimum, uniqueItems, ...: /reference/engines.md 2.5), and obeys regexes.
_CONSTRAINT_SUPPORT: structured_output.SupportByKind = {
    "json_schema": ConstraintSupport("validated", _write_json_schema),
    "regex": ConstraintSupport("enforced", _write_regex),
    "choice": ConstraintSupport("converted", _write_regex),
}
_TRUSTED_CONSTRAINT_SUPPORT: structured_output.SupportByKind = {
    **_CONSTRAINT_SUPPORT,
    "json_schema": ConstraintSupport("enforced", _write_json_schema),
}


class TGI(Provider):
    name: ClassVar[str] = "tgi"
    dialects: ClassVar[tuple[str, ...]] = (_CHAT, _COMPLETIONS)
    constrained_dialects = frozenset({_CHAT})
    default_base_url: ClassVar[str | None] = None
    # Arguments are bound to their schema in any case, but by outlines, as far as that goes.
    strict_tools: ClassVar[bool] = False

    stops_after_calls: ClassVar[bool] = True

    renamed_fields: Mapping[str, str] = {"max_completion_tokens": "max_tokens"}
    unsupported_fields = UNKNOWN_FIELDS.difference({"suffix"}) | _UNSUPPORTED_EVERYWHERE
    hint_fields = UNKNOWN_HINTS

    @property
    def constraint_support(self) -> structured_output.SupportByKind:
        return _TRUSTED_CONSTRAINT_SUPPORT if self.trusted else _CONSTRAINT_SUPPORT

    def adapt_request(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Adapted:
        unsupported_fields = UnsupportedFields(self, body, may_drop)
        unsupported_fields.drop_neutral(_CHAT_NEUTRAL_VALUES if dialect == _CHAT else _NEUTRAL_VALUES)
        if dialect == _CHAT:
            drop_unsupported_parts(body, _UNSUPPORTED_PARTS, unsupported_fields)
            rename_developer_role(body)
            unsupported_fields.drop_lone_top_logprobs()
            adapt_functions(body, unsupported_fields)
            if body.has_value("suffix"):
                unsupported_fields.drop_or_refuse("suffix", "its chat has no such field.")
            constraint = self._choose_tools_or_constraint(body, unsupported_fields, may_drop, constraint)
        else:
            for field in sorted(_UNSUPPORTED_IN_COMPLETIONS & body.keys()):
                unsupported_fields.drop_or_refuse(field, "its completions have no such field.")
        adapted = super().adapt_request(body, dialect, may_drop, constraint)
        adapted.dropped[:0] = unsupported_fields.dropped
        if dialect == _CHAT and body.has_value("repetition_penalty"):
            body["presence_penalty"] = body.value("repetition_penalty") - 2
            del body["repetition_penalty"]
        stop = body.value("stop")
        if isinstance(stop, str):
            body["stop"] = [stop]
        return adapted

    def _choose_tools_or_constraint(
        self, body: Body, unsupported_fields: UnsupportedFields, may_drop: Callable[[str], bool], constraint: Constraint | None
    ) -> Constraint | None:
        """Tools and a response_format together it refuses with 422, whichever way tools are chosen. One of them may be let go."""
        if constraint is None or constraint.output is None or not body.has_value("tools"):
            return constraint
        field = constraint.field
        if body.value("tool_choice") != "none":
            if may_drop(field) or may_drop(field.partition(".")[0]):
                unsupported_fields.dropped.append(field)
                return replace(constraint, output=None)
            unsupported_fields.drop_path_or_refuse(
                "tools", f"it makes no calls in an answer that `{field}` constrains, and refuses both together."
            )
        body.pop("tools", None)
        body.pop("tool_choice", None)
        return replace(constraint, strict_tools=())


def _strip_anchors(pattern: str) -> str:
    inner = pattern.removeprefix("^")
    before = inner[:-1]
    escaped = (len(before) - len(before.rstrip("\\"))) % 2 == 1
    return before if inner.endswith("$") and not escaped else inner
