"""Complete responses of Llama."""

from providers.canonical.chat import ChatResponse, Choice, Text, Usage
from providers.canonical.token_counts import plausible_count
from providers.dialects.bedrock_llama.response_schema import decode_chunk, read_stop_reason


def read_response(raw: bytes) -> ChatResponse:
    """Raises InvalidUpstreamResponse."""
    chunk = decode_chunk(raw)
    parts = (Text(chunk.generation),) if chunk.generation else ()
    usage = Usage(input=plausible_count(chunk.prompt_token_count), output=plausible_count(chunk.generation_token_count))
    finish_reason, upstream_finish_reason = read_stop_reason(chunk.stop_reason)
    choice = Choice(parts, finish_reason, upstream_finish_reason=upstream_finish_reason)
    return ChatResponse((choice,), "", usage=None if usage == Usage() else usage)
