"""Complete responses of Llama."""

from providers.canonical.chat import ChatResponse, Choice, Text, Usage
from providers.canonical.token_counts import plausible_count
from providers.dialects.bedrock_llama.response_schema import decode_chunk


def read_response(raw: bytes) -> ChatResponse:
    """Raises InvalidUpstreamResponse."""
    chunk = decode_chunk(raw)
    parts = (Text(chunk.generation),) if chunk.generation else ()
    usage = Usage(input=plausible_count(chunk.prompt_token_count), output=plausible_count(chunk.generation_token_count))
    return ChatResponse((Choice(parts, chunk.stop_reason),), "", usage=None if usage == Usage() else usage)
