"""Whole answers of Cohere's chat as meaning."""

from providers.chat import ChatResponse, Choice, Citation, Part, Reasoning, Text, ToolCall
from providers.dialects.cohere_chat.shapes import PLAN, Answer, Message, decoded, read_answer
from providers.dialects.cohere_chat.tidings import read_citation, read_ending, read_usage, write_logprob


def read_response(raw: bytes) -> ChatResponse:
    """Raises the error that it told with status 200, or Garbled. It names no model, and not when it was made."""
    told: Answer = decoded(raw, read_answer)
    reason, word = (None, None) if told.finish_reason is None else read_ending(told.finish_reason)
    logprobs = None if told.logprobs is None else tuple(write_logprob(each) for each in told.logprobs)
    choice = Choice(_parts(told.message), reason, logprobs, word)
    return ChatResponse(choices=(choice,), model="", usage=read_usage(told.usage))


def _parts(message: Message) -> tuple[Part, ...]:
    content = message.content or []
    cited: dict[int, list[Citation]] = {}
    first = next((at for at, piece in enumerate(content) if piece.text is not None), 0)
    for raw in message.citations or ():
        read = read_citation(raw)
        if read is not None:
            at, citation = read
            cited.setdefault(first if at is None else at, []).append(citation)
    parts: list[Part] = []
    for at, piece in enumerate(content):
        if piece.thinking:
            parts.append(Reasoning(piece.thinking))
        if piece.text:
            parts.append(Text(piece.text, tuple(cited.get(at, ()))))
    if message.tool_plan:
        parts.append(Reasoning(message.tool_plan, PLAN))
    parts += [ToolCall(call.given_id, call.function.name, call.function.arguments or "{}") for call in message.tool_calls or ()]
    return tuple(parts)
