"""Write a canonical response in the caller's dialect."""

from providers.canonical.chat import ChatResponse
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.finish_reasons import recorded_finish_reason
from providers.canonical.model_names import read_model_name
from providers.dialect import ChatDialect, OutboundResponse, ResponseMeta


def write_response(response: ChatResponse, caller_dialect: ChatDialect, meta: ResponseMeta) -> OutboundResponse:
    first_choice = response.choices[0] if response.choices else None
    return OutboundResponse(
        caller_dialect.write_response(response, meta),
        response.usage,
        None if first_choice is None else recorded_finish_reason(first_choice.finish_reason, first_choice.upstream_finish_reason),
        read_model_name(response.model),
    )


def check_finished(response: ChatResponse) -> ChatResponse:
    """The response itself. Raises InvalidUpstreamResponse if it has no choices, or one without a finish reason."""
    if not response.choices or not all(choice.finish_reason for choice in response.choices):
        raise InvalidUpstreamResponse("The engine's response has no choices, or an unfinished one.")
    return response
