"""Whole answers of Cohere's chat as meaning."""

from providers.canonical.chat import ChatResponse, Choice, Citation, Part, Reasoning, Text, ToolCall
from providers.dialects.cohere_chat.response_schema import TOOL_PLAN, Message, Response, decode_full_response, decode_or_raise
from providers.dialects.cohere_chat.usage import read_citation, read_finish_reason, read_usage, write_logprob


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error that it told with status 200, or Garbled. It names no model, and not when it was made."""
    response: Response = decode_or_raise(raw, decode_full_response)
    finish_reason, upstream_finish_reason = (None, None) if response.finish_reason is None else read_finish_reason(response.finish_reason)
    logprobs = None if response.logprobs is None else tuple(write_logprob(each) for each in response.logprobs)
    choice = Choice(_read_parts(response.message), finish_reason, logprobs, upstream_finish_reason)
    return ChatResponse(choices=(choice,), model="", usage=read_usage(response.usage))


def _read_parts(message: Message) -> tuple[Part, ...]:
    content = message.content or []
    citations_by_index: dict[int, list[Citation]] = {}
    first_text_index = next((index for index, block in enumerate(content) if block.text is not None), 0)
    for raw in message.citations or ():
        located = read_citation(raw)
        if located is not None:
            at, citation = located
            citations_by_index.setdefault(first_text_index if at is None else at, []).append(citation)
    parts: list[Part] = []
    for at, piece in enumerate(content):
        if piece.thinking:
            parts.append(Reasoning(piece.thinking))
        if piece.text:
            parts.append(Text(piece.text, tuple(citations_by_index.get(at, ()))))
    if message.tool_plan:
        parts.append(Reasoning(message.tool_plan, TOOL_PLAN))
    parts += [ToolCall(call.id_or_new, call.function.name, call.function.arguments or "{}") for call in message.tool_calls or ()]
    return tuple(parts)
