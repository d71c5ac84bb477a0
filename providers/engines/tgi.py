"""Text Generation Inference: an OpenAI chat of its own kind, with outlines behind it. In maintenance since 2025-12.

Source: router/src/lib.rs, chat.rs and validation.rs of 3.3.x, by /reference/engines.md 1.4, 2 and 3, read 2026-11.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from providers import guided
from providers.guided import Constraint, Output, Way
from providers.losses import IDLE, UNKNOWN, UNKNOWN_HINTS, Idle, Losses
from providers.provider import Bent, Provider
from providers.thoughts import drop_parts, name_system
from providers.tools import bend_functions
from providers.wire import Body

_CHAT, _COMPLETIONS = "openai_chat", "openai_completions"

_NEITHER = frozenset(
    {
        *("n", "logit_bias", "top_k", "min_p", "min_tokens", "ignore_eos", "stop_token_ids", "include_stop_str_in_output"),
        *("skip_special_tokens", "spaces_between_special_tokens", "priority", "cache_salt", "lora_path", "session_id"),
        *("separate_reasoning", "enable_thinking", "chat_template_kwargs", "mm_processor_kwargs", "continue_final_message"),
        *("reasoning_effort", "presence_penalty"),
    }
)
_NOT_IN_COMPLETIONS = frozenset({"logprobs", "echo", "tools", "tool_choice", "parallel_tool_calls", "top_logprobs"})
_IDLE: Idle = {
    **IDLE,
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
_IDLE_IN_CHAT: Idle = {**_IDLE, "logprobs": (False,)}

_PARTS = {kind: "it reads texts and images alone." for kind in (b'"file"', b'"input_audio"', b'"refusal"', b'"video_url"', b'"audio_url"')}


def _as_value(output: Output) -> dict[str, Any]:
    """A schema under `value`, where OpenAI says `json_schema`, which it refuses with 422 (text-generation-inference#3276)."""
    assert isinstance(output, guided.JsonSchema)
    named = {"name": output.name, "schema": output.schema, "strict": output.strict}
    return {"response_format": {"type": "json_schema", "value": {key: value for key, value in named.items() if value is not None}}}


def _as_regex(output: Output) -> dict[str, Any]:
    """Without anchors: outlines matches the whole answer, and refuses a leading one (/reference/engines.md 2.5)."""
    assert isinstance(output, guided.Regex | guided.Choice)
    pattern = output.pattern if isinstance(output, guided.Regex) else guided.choice_to_regex(output.options)
    return {"response_format": {"type": "regex", "value": _unanchored(pattern)}}


# Outlines passes over keywords of schemas without a word (minimum, uniqueItems, ...: /reference/engines.md 2.5), and obeys regexes.
_WAYS: guided.Ways = {
    "json_schema": Way("validated", _as_value),
    "regex": Way("enforced", _as_regex),
    "choice": Way("converted", _as_regex),
}
_TRUSTED: guided.Ways = {**_WAYS, "json_schema": Way("enforced", _as_value)}


class TGI(Provider):
    name: ClassVar[str] = "tgi"
    dialects: ClassVar[tuple[str, ...]] = (_CHAT, _COMPLETIONS)
    guided_in = frozenset({_CHAT})
    default_base_url: ClassVar[str | None] = None
    # Arguments are bound to their schema in any case, but by outlines, as far as that goes.
    strict_tools: ClassVar[bool] = False

    stops_after_calls: ClassVar[bool] = True

    rename: Mapping[str, str] = {"max_completion_tokens": "max_tokens"}
    refuses = UNKNOWN.difference({"suffix"}) | _NEITHER
    hints = UNKNOWN_HINTS

    @property
    def guided(self) -> guided.Ways:
        return _TRUSTED if self.vouched else _WAYS

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        losses = Losses(self, body, may_drop)
        losses.leave_out(_IDLE_IN_CHAT if dialect == _CHAT else _IDLE)
        if dialect == _CHAT:
            drop_parts(body, _PARTS, losses)
            name_system(body)
            losses.lone_top_logprobs()
            bend_functions(body, losses)
            if body.said("suffix"):
                losses.without("suffix", "its chat has no such field.")
            constraint = self._calls_or_obeys(body, losses, may_drop, constraint)
        else:
            for field in sorted(_NOT_IN_COMPLETIONS & body.keys()):
                losses.without(field, "its completions have no such field.")
        bent = super().bend(body, dialect, may_drop, constraint)
        bent.dropped[:0] = losses.dropped
        if dialect == _CHAT and body.said("repetition_penalty"):
            body["presence_penalty"] = body.value("repetition_penalty") - 2
            del body["repetition_penalty"]
        stop = body.value("stop")
        if isinstance(stop, str):
            body["stop"] = [stop]
        return bent

    def _calls_or_obeys(
        self, body: Body, losses: Losses, may_drop: Callable[[str], bool], constraint: Constraint | None
    ) -> Constraint | None:
        """Tools and a response_format together it refuses with 422, whichever way tools are chosen. One of them may be let go."""
        if constraint is None or constraint.output is None or not body.said("tools"):
            return constraint
        field = constraint.field
        if body.value("tool_choice") != "none":
            if may_drop(field) or may_drop(field.partition(".")[0]):
                losses.dropped.append(field)
                return replace(constraint, output=None)
            losses.part_with("tools", f"it makes no calls in an answer that `{field}` constrains, and refuses both together.")
        body.pop("tools", None)
        body.pop("tool_choice", None)
        return replace(constraint, tools=())


def _unanchored(pattern: str) -> str:
    inner = pattern.removeprefix("^")
    before = inner[:-1]
    escaped = (len(before) - len(before.rstrip("\\"))) % 2 == 1
    return before if inner.endswith("$") and not escaped else inner
