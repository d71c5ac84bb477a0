"""Write a canonical response in the caller's dialect."""

from msgspec.structs import replace

from providers.canonical.chat import ChatResponse, Opaque, ToolCall
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.finish_reasons import recorded_finish_reason
from providers.canonical.model_names import read_model_name
from providers.canonical.token_estimate import CHARACTERS_PER_WRITTEN_TOKEN
from providers.dialect import CallerChatDialect, OutboundResponse, ResponseMeta


def write_response(response: ChatResponse, caller_dialect: CallerChatDialect, meta: ResponseMeta) -> OutboundResponse:
    first_choice = response.choices[0] if response.choices else None
    counted = response if response.usage is not None else replace(response, usage=meta.estimate_usage(count_written_tokens(response)))
    return OutboundResponse(
        caller_dialect.write_response(counted, meta),
        response.usage,
        None if first_choice is None else recorded_finish_reason(first_choice.finish_reason, first_choice.upstream_finish_reason),
        read_model_name(response.model),
    )


def check_finished(response: ChatResponse) -> ChatResponse:
    """The response itself. Raises InvalidUpstreamResponse if it has no choices, or one without a finish reason."""
    if not response.choices or not all(choice.finish_reason for choice in response.choices):
        raise InvalidUpstreamResponse("The engine's response has no choices, or an unfinished one.")
    return response


def count_written_tokens(response: ChatResponse) -> int:
    """An estimate, for a response without usage."""
    parts = [part for choice in response.choices for part in choice.parts if not isinstance(part, Opaque)]
    characters = sum(len(part.arguments if isinstance(part, ToolCall) else part.text) for part in parts)
    return -(-characters // CHARACTERS_PER_WRITTEN_TOKEN)
