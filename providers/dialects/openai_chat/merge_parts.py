"""Restores the order of a message's parts from the positions in its reasoning details."""

from collections import deque
from collections.abc import Sequence

from msgspec.structs import replace

from providers.canonical.chat import Part, Refusal, Text, ToolCall
from providers.dialects.openai_chat.read_reasoning_details import Detail


def merge_parts(details: Sequence[Detail], texts: Sequence[Text], other_parts: Sequence[Refusal | ToolCall]) -> list[Part]:
    """All parts in order: details at their positions in the content, refusal and tool calls where the indexes leave gaps."""
    if all(not detail.content_offset for detail in details) and all(not detail.index or detail.index < len(details) for detail in details):
        return [*(detail.part for detail in sorted(details, key=_detail_index)), *texts, *other_parts]
    content = Text("".join(text.text for text in texts), tuple(citation for text in texts for citation in text.citations))
    pending = deque(other_parts)
    parts: list[Part] = []
    written_until = 0
    for detail in sorted(details, key=_detail_index):
        offset = min(detail.content_offset or 0, len(content.text))
        if offset > written_until:
            parts.append(_slice_text(content, written_until, offset))
            written_until = offset
        while pending and len(parts) < (detail.index or 0):
            parts.append(pending.popleft())
        parts.append(detail.part)
    if written_until < len(content.text):
        parts.append(_slice_text(content, written_until, len(content.text)))
    return [*parts, *pending]


def _detail_index(detail: Detail) -> int:
    return -1 if detail.index is None else detail.index


def _slice_text(content: Text, start: int, end: int) -> Text:
    """A slice of the text with its citations. Citations without a position go with the last slice."""
    is_last = end == len(content.text)
    citations = [
        each
        for each in content.citations
        if (is_last if each.start is None else start <= each.start < end or (is_last and each.start >= end))
    ]
    return Text(
        content.text[start:end],
        tuple(
            each if each.start is None or each.end is None else replace(each, start=each.start - start, end=each.end - start)
            for each in citations
        ),
    )
