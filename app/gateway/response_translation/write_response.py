"""Write a canonical response in the caller's dialect."""

from msgspec.structs import replace

from providers.canonical.chat import ChatResponse, Choice, Opaque, Refusal, Text, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.finish_reasons import recorded_finish_reason
from providers.canonical.model_names import read_model_name
from providers.canonical.token_estimate import tokens_of_bytes
from providers.dialect import CallerChatDialect, OutboundResponse, ResponseMeta

EMPTY_ANSWER = "The engine's answer is empty: it has neither content nor calls nor usage."


def write_response(response: ChatResponse, caller_dialect: CallerChatDialect, meta: ResponseMeta) -> OutboundResponse:
    first_choice = response.choices[0] if response.choices else None
    counted, written_tokens = response, None
    if response.usage is None:
        written_tokens = count_written_tokens(response)
        counted = replace(response, usage=meta.estimate_usage(written_tokens))
    return OutboundResponse(
        caller_dialect.write_response(counted, meta),
        response.usage,
        None if first_choice is None else recorded_finish_reason(first_choice.finish_reason, first_choice.upstream_finish_reason),
        read_model_name(response.model),
        written_tokens,
    )


def check_finished(response: ChatResponse) -> ChatResponse:
    """The response, with a finish reason for each choice: content without one is complete.

    Raises InvalidUpstreamResponse for a response without choices, for a choice with neither content nor a reason, and as
    check_answered() does.
    """
    if not response.choices:
        raise InvalidUpstreamResponse("The engine's response has no choices.")
    if not all(choice.finish_reason for choice in response.choices):
        response = replace(response, choices=tuple(_finished(choice) for choice in response.choices))
    return check_answered(response)


def check_answered(response: ChatResponse) -> ChatResponse:
    """The response itself. Raises InvalidUpstreamResponse if it has neither content nor calls nor usage, and no reason for that."""
    usage = response.usage
    if usage is not None and (usage.input or usage.output):
        return response
    for choice in response.choices:
        if _has_content(choice) or choice.finish_reason in ("length", "content_filter"):
            return response
    raise InvalidUpstreamResponse(EMPTY_ANSWER)


def _finished(choice: Choice) -> Choice:
    if choice.finish_reason:
        return choice
    if not _has_content(choice):
        raise InvalidUpstreamResponse("The engine's answer is empty, and does not say why it ended.")
    has_calls = any(isinstance(part, ToolCall) for part in choice.parts)
    return replace(choice, finish_reason="tool_calls" if has_calls else "stop")


def _has_content(choice: Choice) -> bool:
    return any(not isinstance(part, Text | Refusal) or part.text for part in choice.parts)


def count_written_tokens(response: ChatResponse) -> int:
    """An estimate, for a response without usage."""
    parts = [part for choice in response.choices for part in choice.parts if not isinstance(part, Opaque)]
    return tokens_of_bytes(sum(len((part.arguments if isinstance(part, ToolCall) else part.text).encode()) for part in parts))
