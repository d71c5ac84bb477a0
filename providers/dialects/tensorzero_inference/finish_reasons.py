"""TensorZero's finish reasons, and OpenAI's."""

from collections.abc import Mapping

_WRITTEN: Mapping[str, str] = {"stop": "stop", "length": "length", "tool_calls": "tool_call", "content_filter": "content_filter"}
_READ: Mapping[str, str] = {
    **{theirs: openai for openai, theirs in _WRITTEN.items()},
    "stop_sequence": "stop",
    "unknown": "stop",
}


def write_finish_reason(reason: str | None, stop_sequence: str | None, *, ended_with_calls: bool) -> str | None:
    """Writes a finish reason in TensorZero's words.

    `ended_with_calls` says that the response has tool calls, and the engine sends `stop` for such responses.
    """
    if reason is None:
        return None
    if stop_sequence is not None and reason == "stop":
        return "stop_sequence"
    return "tool_call" if ended_with_calls and reason == "stop" else _WRITTEN.get(reason, "unknown")


def read_finish_reason(reason: str | None) -> str | None:
    return None if reason is None else _READ.get(reason, "stop")
