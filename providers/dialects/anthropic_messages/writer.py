"""Meaning as a stream of /v1/messages.

Source: https://docs.claude.com/en/docs/build-with-claude/streaming, read 2026-11.
"""

from collections import deque
from typing import Any, assert_never

import msgspec
from msgspec.structs import replace

from providers.chat import Opaque, Part, Reasoning, Refusal, Text, ToolCall, Usage
from providers.dialect import Stamp
from providers.dialects.anthropic_messages.blocks import write_input
from providers.dialects.anthropic_messages.seals import (
    is_redacted,
    write_call_seal,
    write_citation,
    write_opaque,
    write_reasoning,
    write_seal,
)
from providers.dialects.anthropic_messages.usage import write_reason, write_usage
from providers.events import Closed, Counted, Delta, Event, Finished, Logprobs, Opened, Started
from providers.wire import on_one_line

_encode = msgspec.json.encode


class _Block:
    """A part on its way out.

    `index`: of its block, once that has begun. `rest`: what came of it before it could be written.
    `whole`: none of it can, before its end.
    """

    __slots__ = ("closed", "head", "index", "part", "rest", "tail", "whole")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.index = -1
        self.head = b""
        self.tail = b"}}\n\n"
        self.rest: list[str] = []
        self.whole = False
        self.closed: Closed | None = None


class EventWriter:
    """See providers.dialect.Writer. Of the first choice: Anthropic knows no others.

    Blocks come one after another: what grows beside the open one waits until that is closed. message_start waits for whatever follows it,
    so that it can tell tokens that are counted by then.
    """

    def __init__(self, stamp: Stamp) -> None:
        self._stamp = stamp
        self._started: Started | None = None
        self._begun = False
        self._blocks: dict[int, _Block] = {}
        self._current: _Block | None = None
        self._waiting: deque[_Block] = deque()
        self._written = 0
        self._called = False
        self._refused = False
        self._usage: Usage | None = None
        self._finished: Finished | None = None

    def feed(self, event: Event) -> bytes:
        match event:
            case Delta():
                return self._grow(event) if event.choice == 0 else b""
            case Opened():
                return self._open(event) if event.choice == 0 else b""
            case Closed():
                return self._close(event) if event.choice == 0 else b""
            case Started():
                self._started = event
                return b""
            case Counted():
                self._usage = event.usage
                return self._begin()
            case Finished():
                if event.choice == 0:
                    self._finished = event
                return self._begin()
            case Logprobs():
                return b""
            case _:
                assert_never(event)

    def end(self) -> bytes:
        """Tokens that nobody counted are told as 0: its clients cannot read an answer without them."""
        end = self._finished or Finished(0, "stop")
        delta = {
            "type": "message_delta",
            "delta": {
                "stop_reason": write_reason(end, called=self._called, refused=self._refused),
                "stop_sequence": end.stop_sequence,
            },
            "usage": write_usage(self._usage),
        }
        return self._begin() + _event(delta) + b'event: message_stop\ndata: {"type":"message_stop"}\n\n'

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        message: dict[str, Any] = {
            "id": "msg_" + self._stamp.id,
            "type": "message",
            "role": "assistant",
            "model": self._stamp.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": write_usage(self._usage, self._started.service_tier if self._started else None),
        }
        return _event({"type": "message_start", "message": message})

    def _open(self, event: Opened) -> bytes:
        block = self._blocks[event.index] = _Block(event.part)
        self._called = self._called or isinstance(event.part, ToolCall)
        self._refused = self._refused or isinstance(event.part, Refusal)
        if self._current is not None:
            self._waiting.append(block)
            return self._begin()
        self._current = block
        return self._begin() + self._start(block)

    def _grow(self, event: Delta) -> bytes:
        block = self._blocks[event.index]
        if block is self._current and block.head:
            return block.head + _encode(event.text) + block.tail
        block.rest.append(event.text)
        return self._head(block, event.text) if block is self._current and not block.whole else b""

    def _close(self, event: Closed) -> bytes:
        block = self._blocks.pop(event.index)
        block.closed = event
        if block is not self._current:
            return b""
        out = [self._stop(block, event)]
        self._current = None
        # What waited goes on in the order in which it began.
        while self._waiting and self._current is None:
            waiting = self._waiting.popleft()
            out.append(self._start(waiting))
            if waiting.closed is None:
                self._current = waiting
            else:
                out.append(self._stop(waiting, waiting.closed))
        return b"".join(out)

    def _start(self, block: _Block) -> bytes:
        """Reasoning begins with its first text: that of which there is only a seal is a block of another type. So do calls, see _head."""
        part = block.part
        match part:
            case Text() | Refusal():
                return self._begin_block(block, {"type": "text", "text": ""}, "text_delta", "text") + self._gathered(block, part.text)
            case Reasoning():
                return self._gathered(block, part.text)
            case ToolCall():
                carrier = b"" if part.seal is None else self._whole_block(write_call_seal(part.id, part.seal))
                start: dict[str, Any] = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
                out = carrier + self._begin_block(block, start, "input_json_delta", "partial_json")
                # Not yet: whether the arguments are an object has to be seen first.
                block.head = b""
                return out + self._gathered(block, part.arguments)
            case Opaque():
                return b""
            case _:
                assert_never(part)

    def _gathered(self, block: _Block, first: str) -> bytes:
        """`first`: what the part held when it began."""
        text = "".join((first, *block.rest))
        block.rest = [text] if text else []
        return self._head(block, text) if text else b""

    def _head(self, block: _Block, last: str) -> bytes:
        """Writes what a block has gathered, if it may be written now; from then on its deltas go straight through.

        `last`: what has been gathered last: before it came blanks alone.
        """
        part = block.part
        if isinstance(part, ToolCall):
            told = last.lstrip()[:1]
            # Arguments that are no object (its first character tells) wait for their end: see write_input.
            block.whole = part.custom or told not in ("", "{")
            if block.whole or not told:
                return b""
            block.head = _delta_head(block.index, "input_json_delta", "partial_json")
            out = b""
        elif isinstance(part, Reasoning):
            start = {"type": "thinking", "thinking": "", "signature": ""}
            out = self._begin_block(block, start, "thinking_delta", "thinking")
        else:
            out = b""
        text, block.rest = "".join(block.rest), []
        return out + block.head + _encode(text) + block.tail

    def _stop(self, block: _Block, closed: Closed) -> bytes:
        part = block.part
        match part:
            case Text():
                citations = [_citation(block.index, write_citation(each)) for each in (*part.citations, *closed.citations)]
                return b"".join(citations) + _stop(block.index)
            case Refusal():
                return _stop(block.index)
            case Reasoning():
                seal = closed.seal or part.seal
                if block.index < 0:
                    whole = replace(part, seal=seal)
                    if is_redacted(whole):
                        return self._whole_block(write_reasoning(whole))
                    start = {"type": "thinking", "thinking": "", "signature": ""}
                    return self._begin_block(block, start, "thinking_delta", "thinking") + _signed(block.index, write_seal(seal))
                return _signed(block.index, write_seal(seal))
            case ToolCall():
                out = b""
                rest = "".join(block.rest)
                if rest.strip():
                    arguments = _encode(write_input(rest, part.custom)).decode()
                    out = _delta_head(block.index, "input_json_delta", "partial_json") + _encode(arguments) + block.tail
                out += _stop(block.index)
                # The seal that came with the end stands after the call: its id says whose it is.
                return out if closed.seal is None else out + self._whole_block(write_call_seal(part.id, closed.seal))
            case Opaque():
                return self._whole_block(write_opaque(part))
            case _:
                assert_never(part)

    def _begin_block(self, block: _Block, start: dict[str, Any], kind: str, field: str) -> bytes:
        block.index = self._written
        self._written += 1
        block.head = _delta_head(block.index, kind, field)
        return _event({"type": "content_block_start", "index": block.index, "content_block": start})

    def _whole_block(self, start: Any) -> bytes:
        index = self._written
        self._written += 1
        return _event({"type": "content_block_start", "index": index, "content_block": start}) + _stop(index)


def _event(event: dict[str, Any]) -> bytes:
    """What engines wrote may hold line ends: JSON that is passed on as it was."""
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), on_one_line(_encode(event)))


def _delta_head(index: int, kind: str, field: str) -> bytes:
    return (
        f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{field}":'
    ).encode()


def _citation(index: int, citation: Any) -> bytes:
    return _event({"type": "content_block_delta", "index": index, "delta": {"type": "citations_delta", "citation": citation}})


def _signed(index: int, signature: str) -> bytes:
    return _delta_head(index, "signature_delta", "signature") + _encode(signature) + b"}}\n\n" + _stop(index)


def _stop(index: int) -> bytes:
    return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % index
