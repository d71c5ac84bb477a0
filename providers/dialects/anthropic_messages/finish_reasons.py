"""Stop reasons of Messages as OpenAI's finish reasons, and back.

Source: https://docs.claude.com/en/docs/build-with-claude/handling-stop-reasons, read 2026-11.
"""

from collections.abc import Mapping

from providers.canonical.chat import Choice, Refusal, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import ChoiceFinished
from providers.canonical.finish_reasons import known_reason, openai_reason

# OpenAI's finish reason, and whether Anthropic's stop reason says more.
_FINISH_REASONS: Mapping[str, tuple[str, bool]] = {
    "end_turn": ("stop", False),
    "stop_sequence": ("stop", True),
    "pause_turn": ("stop", True),
    "max_tokens": ("length", False),
    "model_context_window_exceeded": ("length", True),
    "tool_use": ("tool_calls", False),
    "refusal": ("content_filter", True),
}
# With those of beta features, which reach only callers who asked for them.
_KNOWN_STOP_REASONS = frozenset({*_FINISH_REASONS, "compaction"})
_STOP_REASONS: Mapping[str, str] = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
EMPTY_ANSWER = "The engine's answer is empty: it has neither content nor calls nor usage."


def read_stop_reason(upstream_finish_reason: str) -> tuple[str, str | None]:
    """OpenAI's finish reason, and Anthropic's own if it says more. An unknown stop reason is a stop.

    Hosts of other models send words of their own, such as Z.ai's `sensitive`. Raises UpstreamError for one that means failure.
    """
    finish_reason, is_more_specific = _FINISH_REASONS.get(upstream_finish_reason) or (openai_reason(upstream_finish_reason), True)
    return finish_reason, upstream_finish_reason if is_more_specific else None


def check_empty_answer(upstream_stop_reason: str) -> None:
    """Raises InvalidUpstreamResponse for a message that is empty, has no usage, and was neither cut off nor filtered."""
    if read_stop_reason(upstream_stop_reason)[0] in ("stop", "tool_calls"):
        raise InvalidUpstreamResponse(EMPTY_ANSWER)


def known_stop_reason(upstream_stop_reason: str, *, has_tool_calls: bool) -> str:
    """The stop reason itself if the official SDKs know it, for some refuse any other; else the one that means the same."""
    if upstream_stop_reason in _KNOWN_STOP_REASONS:
        return upstream_stop_reason
    return _STOP_REASONS.get(known_reason(upstream_stop_reason) or "") or ("tool_use" if has_tool_calls else "end_turn")


def write_stop_reason(finish: ChoiceFinished | Choice, *, has_tool_calls: bool, has_refusal: bool) -> str | None:
    """The stop reason; None for a choice without a finish reason. Engines of OpenAI's kind may end calls or a refusal with `stop`."""
    finish_reason = finish.reason if isinstance(finish, ChoiceFinished) else finish.finish_reason
    if finish_reason is None:
        return None
    if has_refusal:
        return "refusal"
    if finish.upstream_finish_reason is not None and _FINISH_REASONS.get(finish.upstream_finish_reason, ("", False))[0] == finish_reason:
        return finish.upstream_finish_reason
    if finish_reason == "stop" or finish_reason not in _STOP_REASONS:
        return "tool_use" if has_tool_calls else "stop_sequence" if finish.stop_sequence is not None else "end_turn"
    return _STOP_REASONS[finish_reason]


def write_choice_stop_reason(choice: Choice) -> str | None:
    return write_stop_reason(
        choice,
        has_tool_calls=any(isinstance(part, ToolCall) for part in choice.parts),
        has_refusal=any(isinstance(part, Refusal) for part in choice.parts),
    )
