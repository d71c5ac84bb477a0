"""Events as a stream of /v1/messages.

Source: https://docs.claude.com/en/docs/build-with-claude/streaming, read 2026-11.
"""

from collections import deque
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from providers.canonical.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.canonical.errors import NarthexError
from providers.canonical.events import ChoiceFinished, Event, Logprobs, PartDelta, PartFinished, PartStarted, ResponseStarted, UsageReported
from providers.canonical.sse import to_single_line
from providers.canonical.tool_calls import write_arguments
from providers.dialect import ResponseMeta
from providers.dialects.anthropic_messages.citations import write_citation
from providers.dialects.anthropic_messages.finish_reasons import write_stop_reason
from providers.dialects.anthropic_messages.opaque_states import (
    is_redacted,
    write_call_state,
    write_opaque,
    write_reasoning,
    write_signature,
)
from providers.dialects.anthropic_messages.usage import write_usage

_encode = msgspec.json.encode


class _OutputBlock:
    """A part that is being written as a block."""

    __slots__ = ("closed", "deferred", "delta_prefix", "delta_suffix", "index", "part", "pending")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.index = -1  # that of the block, negative until it has begun
        self.delta_prefix = b""
        self.delta_suffix = b"}}\n\n"
        self.pending: list[str] = []  # text that could not be written yet
        self.deferred = False  # whether nothing can be written before the part is finished
        self.closed: PartFinished | None = None


class MessagesStreamWriter:
    """Implements providers.dialect.StreamWriter, for the first choice: Messages has no others.

    Blocks are written one after another: parts beside the open block wait until that is closed. message_start waits for the next event,
    so that it can report usage that is known by then. Most engines report it last: until then it has the estimated input, by which coding
    agents see how full their context is; message_delta has the final counts.
    """

    def __init__(self, meta: ResponseMeta) -> None:
        self._meta = meta
        self._started: ResponseStarted | None = None
        self._message_started = False
        self._blocks: dict[int, _OutputBlock] = {}
        self._current: _OutputBlock | None = None
        self._queued_blocks: deque[_OutputBlock] = deque()
        self._block_count = 0
        self._has_tool_calls = False
        self._has_refusal = False
        self._usage: Usage | None = None
        self._finished: ChoiceFinished | None = None

    def feed(self, event: Event) -> bytes:
        match event:
            case PartDelta():
                return self._write_delta(event) if event.choice == 0 else b""
            case PartStarted():
                return self._open_block(event) if event.choice == 0 else b""
            case PartFinished():
                return self._close_block(event) if event.choice == 0 else b""
            case ResponseStarted():
                self._started = event
                return b""
            case UsageReported():
                self._usage = event.usage
                return self._start_message()
            case ChoiceFinished():
                if event.choice == 0:
                    self._finished = event
                return self._start_message()
            case Logprobs():
                return b""
            case _:
                assert_never(event)

    def finish(self) -> bytes:
        """Usage that was not counted is written as 0: the official SDKs require it."""
        finished = self._finished or ChoiceFinished(0, "stop")
        delta = {
            "type": "message_delta",
            "delta": {
                "stop_reason": write_stop_reason(finished, has_tool_calls=self._has_tool_calls, has_refusal=self._has_refusal),
                "stop_sequence": finished.stop_sequence,
            },
            "usage": write_usage(self._usage),
        }
        return self._start_message() + _event_frame(delta) + b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

    def write_failure(self, error: NarthexError) -> bytes:
        return b""

    def _start_message(self) -> bytes:
        if self._message_started:
            return b""
        self._message_started = True
        message: dict[str, Any] = {
            "id": "msg_" + self._meta.id,
            "type": "message",
            "role": "assistant",
            "model": self._meta.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            # Not marked as estimated: SDKs would keep the mark beside the final counts.
            "usage": write_usage(
                self._usage or Usage(self._meta.estimated_input, 0), self._started.service_tier if self._started else None
            ),
        }
        return _event_frame({"type": "message_start", "message": message})

    def _open_block(self, event: PartStarted) -> bytes:
        block = self._blocks[event.index] = _OutputBlock(event.part)
        self._has_tool_calls = self._has_tool_calls or isinstance(event.part, ToolCall)
        self._has_refusal = self._has_refusal or isinstance(event.part, Refusal)
        if self._current is not None:
            self._queued_blocks.append(block)
            return self._start_message()
        self._current = block
        return self._start_message() + self._start_block(block)

    def _write_delta(self, event: PartDelta) -> bytes:
        block = self._blocks[event.index]
        if block is self._current and block.delta_prefix:
            return block.delta_prefix + _encode(event.text) + block.delta_suffix
        block.pending.append(event.text)
        return self._flush_pending(block, event.text) if block is self._current and not block.deferred else b""

    def _close_block(self, event: PartFinished) -> bytes:
        block = self._blocks.pop(event.index)
        block.closed = event
        if block is not self._current:
            return b""
        frames = [self._stop_block(block, event)]
        self._current = None
        # Waiting parts continue in the order in which they began.
        while self._queued_blocks and self._current is None:
            queued = self._queued_blocks.popleft()
            frames.append(self._start_block(queued))
            if queued.closed is None:
                self._current = queued
            else:
                frames.append(self._stop_block(queued, queued.closed))
        return b"".join(frames)

    def _start_block(self, block: _OutputBlock) -> bytes:
        """Starts the block of a part. Reasoning starts with its first text: reasoning of only a signature is a block of another type."""
        part = block.part
        match part:
            case Text() | Refusal():
                return self._write_block_start(block, {"type": "text", "text": ""}, "text_delta", "text") + self._flush_with_initial(
                    block, part.text
                )
            case Reasoning():
                return self._flush_with_initial(block, part.text)
            case ToolCall():
                state_block = b"" if part.opaque_state is None else self._write_complete_block(write_call_state(part.id, part.opaque_state))
                content_block: dict[str, Any] = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
                frames = state_block + self._write_block_start(block, content_block, "input_json_delta", "partial_json")
                # No delta is written until it is known whether the arguments are an object.
                block.delta_prefix = b""
                return frames + self._flush_with_initial(block, part.arguments)
            case Opaque():
                return b""
            case _:
                assert_never(part)

    def _flush_with_initial(self, block: _OutputBlock, initial_text: str) -> bytes:
        """Writes the pending text of a block, after what the part held when it was started."""
        text = "".join((initial_text, *block.pending))
        block.pending = [text] if text else []
        return self._flush_pending(block, text) if text else b""

    def _flush_pending(self, block: _OutputBlock, last_text: str) -> bytes:
        """Writes the pending text of a block if possible; later deltas are then written at once.

        `last_text` is the latest piece of it. Earlier pieces of a call are blank.
        """
        part = block.part
        if isinstance(part, ToolCall):
            first_character = last_text.lstrip()[:1]
            # Arguments that are not an object, as the first character shows, wait for their end: see write_arguments.
            block.deferred = part.custom or first_character not in ("", "{")
            if block.deferred or not first_character:
                return b""
            block.delta_prefix = _delta_prefix(block.index, "input_json_delta", "partial_json")
            frames = b""
        elif isinstance(part, Reasoning):
            content_block = {"type": "thinking", "thinking": "", "signature": ""}
            frames = self._write_block_start(block, content_block, "thinking_delta", "thinking")
        else:
            frames = b""
        text, block.pending = "".join(block.pending), []
        return frames + block.delta_prefix + _encode(text) + block.delta_suffix

    def _stop_block(self, block: _OutputBlock, closed: PartFinished) -> bytes:
        part = block.part
        match part:
            case Text():
                citations = [_citation_frame(block.index, write_citation(citation)) for citation in (*part.citations, *closed.citations)]
                return b"".join(citations) + _block_stop_frame(block.index)
            case Refusal():
                return _block_stop_frame(block.index)
            case Reasoning():
                opaque_state = closed.opaque_state or part.opaque_state
                if block.index < 0:
                    reasoning = replace(part, opaque_state=opaque_state)
                    if is_redacted(reasoning):
                        return self._write_complete_block(write_reasoning(reasoning))
                    content_block = {"type": "thinking", "thinking": "", "signature": ""}
                    return self._write_block_start(block, content_block, "thinking_delta", "thinking") + _signature_frames(
                        block.index, write_signature(opaque_state)
                    )
                return _signature_frames(block.index, write_signature(opaque_state))
            case ToolCall():
                frames = b""
                pending = "".join(block.pending)
                if pending.strip():
                    arguments = _encode(write_arguments(pending, custom=part.custom)).decode()
                    frames = _delta_prefix(block.index, "input_json_delta", "partial_json") + _encode(arguments) + block.delta_suffix
                frames += _block_stop_frame(block.index)
                # A signature that came with the end follows the call in a block of its own, which names the call's id.
                return (
                    frames
                    if closed.opaque_state is None
                    else frames + self._write_complete_block(write_call_state(part.id, closed.opaque_state))
                )
            case Opaque():
                return self._write_complete_block(write_opaque(part))
            case _:
                assert_never(part)

    def _write_block_start(self, block: _OutputBlock, content_block: dict[str, Any], delta_type: str, field: str) -> bytes:
        block.index = self._block_count
        self._block_count += 1
        block.delta_prefix = _delta_prefix(block.index, delta_type, field)
        return _event_frame({"type": "content_block_start", "index": block.index, "content_block": content_block})

    def _write_complete_block(self, content_block: Any) -> bytes:
        index = self._block_count
        self._block_count += 1
        return _event_frame({"type": "content_block_start", "index": index, "content_block": content_block}) + _block_stop_frame(index)


def _event_frame(event: dict[str, Any]) -> bytes:
    """Removes line ends: JSON that an engine wrote may hold some."""
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), to_single_line(_encode(event)))


def _delta_prefix(index: int, delta_type: str, field: str) -> bytes:
    return (
        f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":{index},"delta":{{"type":"{delta_type}","{field}":'
    ).encode()


def _citation_frame(index: int, citation: Any) -> bytes:
    return _event_frame({"type": "content_block_delta", "index": index, "delta": {"type": "citations_delta", "citation": citation}})


def _signature_frames(index: int, signature: str) -> bytes:
    return _delta_prefix(index, "signature_delta", "signature") + _encode(signature) + b"}}\n\n" + _block_stop_frame(index)


def _block_stop_frame(index: int) -> bytes:
    return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % index
