"""Complete responses of generateContent: one frame that holds everything."""

from providers.canonical.chat import ChatResponse
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import assemble_response
from providers.dialects.gemini.response_parser import ResponseParser


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error of a response with status 200, UnparsableModelOutput, or InvalidUpstreamResponse."""
    parser = ResponseParser()
    response = assemble_response(parser.read(raw))
    if not response.choices:
        raise InvalidUpstreamResponse("The engine's answer has no candidates, and does not say why.")
    return response
