"""Stop reasons of Converse as OpenAI's finish reasons.

Source: the service model of Bedrock Runtime in botocore 1.44 (StopReason), read 2026-11; recordings aws_bedrock/01 to 22.
"""

from collections.abc import Mapping

from providers.canonical.errors import UnparsableModelOutput
from providers.canonical.finish_reasons import openai_reason

# OpenAI's finish reason, and whether Converse's own says more.
_FINISH_REASONS: Mapping[str, tuple[str, bool]] = {
    "end_turn": ("stop", False),
    "stop_sequence": ("stop", True),
    "max_tokens": ("length", False),
    "model_context_window_exceeded": ("length", True),
    "tool_use": ("tool_calls", False),
    "guardrail_intervened": ("content_filter", True),
    "content_filtered": ("content_filter", True),
}
_MALFORMED_REASONS = frozenset({"malformed_model_output", "malformed_tool_use"})


def read_stop_reason(upstream_finish_reason: str, *, has_tool_calls: bool) -> tuple[str, str | None]:
    """OpenAI's finish reason, and Converse's own if it says more.

    Raises UnparsableModelOutput if Bedrock could not parse what the model wrote, and the UpstreamError of any other failure.
    """
    if upstream_finish_reason in _MALFORMED_REASONS:
        output = "tool call" if upstream_finish_reason == "malformed_tool_use" else "answer"
        raise UnparsableModelOutput(
            f"The engine could not parse the {output} that its model wrote ({upstream_finish_reason}).", upstream_status=200
        )
    finish_reason, is_more_specific = _FINISH_REASONS.get(upstream_finish_reason) or (openai_reason(upstream_finish_reason), True)
    return (
        "tool_calls" if has_tool_calls and finish_reason == "stop" else finish_reason,
        upstream_finish_reason if is_more_specific else None,
    )
