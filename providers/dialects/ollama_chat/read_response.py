"""Complete responses of Ollama's chat: one chunk that holds everything."""

from providers.canonical.chat import ChatResponse
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import assemble_response
from providers.dialects.ollama_chat.response_parser import ResponseParser


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error of a response with status 200, or InvalidUpstreamResponse."""
    parser = ResponseParser()
    response = assemble_response(parser.read(raw))
    if not parser.has_message:
        raise InvalidUpstreamResponse("The engine's answer has no message.")
    if not parser.done:
        raise InvalidUpstreamResponse("The engine's answer is not finished: it is not marked as done.")
    return response
