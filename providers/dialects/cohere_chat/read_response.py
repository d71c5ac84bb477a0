"""Complete responses of Cohere's chat."""

from providers.canonical.chat import ChatResponse, Choice, Citation, Part, Reasoning, Text, ToolCall
from providers.dialects.cohere_chat.citations import read_citation
from providers.dialects.cohere_chat.finish_reasons import read_finish_reason
from providers.dialects.cohere_chat.logprobs import read_logprob
from providers.dialects.cohere_chat.response_schema import TOOL_PLAN, Message, decode_response
from providers.dialects.cohere_chat.usage import read_usage


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error of a response with status 200, or InvalidUpstreamResponse. Cohere reports neither model nor creation time."""
    response = decode_response(raw)
    finish_reason, upstream_finish_reason = (None, None) if response.finish_reason is None else read_finish_reason(response.finish_reason)
    logprobs = None if response.logprobs is None else tuple(read_logprob(each) for each in response.logprobs)
    choice = Choice(_read_parts(response.message), finish_reason, logprobs, upstream_finish_reason)
    return ChatResponse(choices=(choice,), model="", usage=read_usage(response.usage))


def _read_parts(message: Message) -> tuple[Part, ...]:
    content = message.content or []
    citations_by_index: dict[int, list[Citation]] = {}
    first_text_index = next((index for index, block in enumerate(content) if block.text is not None), 0)
    for raw in message.citations or ():
        located = read_citation(raw)
        if located is not None:
            index, citation = located
            citations_by_index.setdefault(first_text_index if index is None else index, []).append(citation)
    parts: list[Part] = []
    for index, block in enumerate(content):
        if block.thinking:
            parts.append(Reasoning(block.thinking))
        if block.text:
            parts.append(Text(block.text, tuple(citations_by_index.get(index, ()))))
    if message.tool_plan:
        parts.append(Reasoning(message.tool_plan, TOOL_PLAN))
    parts += [ToolCall(call.id_or_new, call.function.name, call.function.arguments or "{}") for call in message.tool_calls or ()]
    return tuple(parts)
