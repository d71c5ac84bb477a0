"""StreamRelay: a chunk of an engine is with its caller when data_received() returns, and all else is as by the task."""

import asyncio
import cProfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import BytesIO
from math import inf
from typing import Any, cast

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.callers.stream_relay import StreamRelay
from app.api.server.http_call import HttpCall
from app.domain.exchange import Exchange
from app.recording.spool.spool_record import SpoolRecord
from providers import wire
from providers.dialect import StreamEditor
from providers.dialects.openai_chat import OpenAIChat
from providers.transport.connection import Connection as EngineConnection
from providers.transport.deadlines import Deadlines
from providers.transport.http1_request import OutgoingRequest
from providers.transport.loop_turns import LoopTurns
from providers.transport.response_stream import ResponseStream
from providers.transport.write_batcher import WriteBatcher
from providers.wire import twin
from tests.support.strategies.chat_strategies import META, bounded, byte_splits, chunk, chunk_choice, encode_sse_chunks, streams
from tests.support.wire_inputs import CHAT_CHOICES
from tests.unit.api.test_http_call import Connection, ReceivedBody, WrittenTransport

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


class EngineTransport(asyncio.Transport):
    """The transport of a connection to an engine."""

    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class AtOnce:
    """The event loop's own transport of a caller."""

    def __init__(self, connection: "CallerConnection") -> None:
        self.write = connection.write_at_once


class CallerConnection(Connection):
    """The connection of a caller. What it is sent at once is `at_once`, and with the rest in transport.written."""

    def __init__(self) -> None:
        super().__init__()
        self.transport: Any = WrittenTransport()
        self.at_once: list[bytes] = []
        self.write_batcher = WriteBatcher()
        self.loop_transport: Any = AtOnce(self)

    def write_at_once(self, data: bytes) -> None:
        self.at_once.append(data)
        self.transport.write(data)


class Record:
    def __init__(self) -> None:
        self.response = b""
        self.fault: Exception | None = None

    def append_response(self, data: bytes) -> None:
        if self.fault is not None:
            raise self.fault
        self.response += data


async def _no_handler(call: HttpCall) -> None:
    pass


class Relayed:
    """One stream of an engine on its way to a caller, and the task that relays what is not sent at once."""

    def __init__(self, *, relays: bool = True) -> None:
        self.caller = CallerConnection()
        self.call = HttpCall(self.caller, _no_handler, "POST", "/", [], None, http_1_0=False, keep_alive=True)
        self.record = Record()
        self.editor: StreamEditor = OpenAIChat().stream_editor(META)
        self.engine = EngineConnection("engine", lambda connection: None, lambda connection: None)
        self.engine.connection_made(EngineTransport())
        deadlines = Deadlines(inf, inf, inf, 10.0, True, 5.0, inf, inf)
        self.stream = ResponseStream(OutgoingRequest(b"", b"", 0, True, False), deadlines, self.engine, False, LoopTurns())
        self.engine.stream = self.stream
        self.read_blocks = 0
        self._relays = relays
        self.task = asyncio.create_task(self._relay())

    async def _relay(self) -> None:
        """Does what app.gateway.pipeline.relay does with a stream that has begun."""
        await self.call.begin_stream(200, b"", b"")
        if self._relays:
            self.stream.receiver = StreamRelay(self.call, self.stream, self.editor, self.record)
        async for block in self.stream:
            self.read_blocks += bool(block)
            data = self.editor.feed(block)
            if data:
                self.record.append_response(data)
                await self.call.send(data)
            if self.editor.done or self.editor.failure is not None:
                break
        last = self.editor.finish()
        self.record.append_response(last)
        await self.call.end_stream(last)

    def send(self, data: bytes) -> bytes:
        """The engine's bytes arrive. Returns what the caller is sent before the event loop turns."""
        before = len(self.caller.transport.written)
        self.engine.data_received(data)
        return b"".join(self.caller.transport.written[before:])

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    @property
    def sent_body(self) -> bytes:
        """The body of the response, as the caller reads it."""
        received = ReceivedBody()
        httptools.HttpResponseParser(received).feed_data(b"".join(self.caller.transport.written))
        assert received.is_complete == self.call.response_complete
        return b"".join(received.blocks)


@asynccontextmanager
async def relayed(*, relays: bool = True) -> AsyncGenerator[Relayed]:
    stream = Relayed(relays=relays)
    await stream.settle()
    stream.send(HEAD)
    await stream.settle()
    try:
        yield stream
    finally:
        stream.task.cancel()
        await asyncio.wait([stream.task])


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(text: str, **fields: Any) -> bytes:
    return encode_sse_chunks([chunk([chunk_choice(0, None, content=text)], **fields)])


LAST = encode_sse_chunks([chunk([chunk_choice(0, "stop")])]) + b"data: [DONE]\n\n"


async def test_chunk_is_sent_and_recorded_before_the_event_loop_turns_and_wakes_no_task():
    async with relayed() as stream:
        for number in range(6):
            sent = stream.send(http_chunk(event(f"word {number}")))
            assert f"word {number}".encode() in sent and stream.record.response.endswith(b"}\n\n")
            await stream.settle()
        assert stream.read_blocks == 0 and len(stream.caller.at_once) == 6
        stream.send(http_chunk(LAST) + END)
        await stream.task
        assert stream.call.response_complete and stream.sent_body == stream.record.response


@bounded
@given(st.data())
def test_relayed_stream_is_the_one_that_the_task_sends_however_it_is_cut(data: st.DataObject) -> None:
    events = [encode_sse_chunks([each]) for each in data.draw(streams())]
    done = data.draw(st.sampled_from([b"", b"data: [DONE]\n\n"]))
    chunks = data.draw(byte_splits(b"".join(events) + done))
    pieces = data.draw(byte_splits(b"".join([http_chunk(each) for each in chunks if each]) + END))

    asyncio.run(_compare(pieces))


async def _play(pieces: list[bytes], *, relays: bool) -> tuple[bytes, bytes, Any, Any, int, str | None]:
    """The bytes that the caller was sent and the record got, the counts, and the error, if there was one."""
    async with relayed(relays=relays) as stream:
        for piece in pieces:
            stream.send(piece)
            await stream.settle()
        await asyncio.wait([stream.task])
        editor, error = stream.editor, stream.task.exception()
        counted = editor.usage, editor.finish_reason, editor.written_tokens, None if error is None else str(error)
        return stream.sent_body, stream.record.response, *counted


async def _compare(pieces: list[bytes]) -> None:
    by_task = await _play(pieces, relays=False)
    chosen = wire.relay
    for function in {chosen, twin.relay}:
        wire.relay = function
        try:
            assert await _play(pieces, relays=True) == by_task
        finally:
            wire.relay = chosen


plain_texts = st.sampled_from([b"", b" word", b"\xc3\xa9", b"\\n", b"\\u00e9\\ud83d\\ude00", b'\\"', b"stop", b"tool_calls", b"data: "])
shapes = st.sampled_from([*CHAT_CHOICES[:6], CHAT_CHOICES[0], *CHAT_CHOICES[7:8], *CHAT_CHOICES[10:], b"calls"])
CALLS = b'[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f"}}]},"finish_reason":null}]'


@st.composite
def plain_streams(draw: st.DrawFn) -> list[bytes]:
    """The bytes of a stream whose events differ in their choices alone, as nearly all do, cut into chunks and reads."""
    events: list[bytes] = [event("a"), event("b")]
    for _ in range(draw(st.integers(1, 12))):
        shape = draw(shapes)
        choices = CALLS if shape == b"calls" else shape.replace(b"%b", draw(plain_texts))
        created = b"6" if draw(st.integers(0, 9)) == 0 else b"5"
        events.append(
            event("c").replace(b'[{"index": 0, "delta": {"content": "c"}, "finish_reason": null}]', choices).replace(b"5", created)
        )
    if draw(st.booleans()):
        events.append(LAST)
    chunks = events if draw(st.booleans()) else draw(byte_splits(b"".join(events)))
    wire_bytes = [http_chunk(each) for each in chunks if each] + [END]
    return wire_bytes if draw(st.booleans()) else draw(byte_splits(b"".join(wire_bytes)))


@bounded
@given(plain_streams())
def test_edit_of_the_wire_is_the_one_of_the_task_however_it_is_cut(pieces: list[bytes]) -> None:
    asyncio.run(_compare(pieces))


async def test_usual_chunks_are_edited_without_the_editor():
    async with relayed() as stream:
        for word in ("a", "b", "c"):
            stream.send(http_chunk(event(word)))
        editor, fed = cast(Any, stream.editor), list[bytes]()
        feed, editor.feed = editor.feed, fed.append
        both = event("e") + event("f")
        for sent, expected in ((event("d"), 1), (both, 2), (event("g")[:50], 0), (event("g")[50:], 1)):
            assert stream.send(http_chunk(sent)).count(b"data: ") == expected
        assert fed == [] and editor.written_tokens == 2, "seven bytes"
        editor.feed = feed
        stream.send(http_chunk(LAST) + END)
        await stream.task
        assert stream.sent_body == stream.record.response


async def test_task_goes_on_at_the_end_that_the_engine_announces_though_its_connection_stays_open():
    async with relayed() as stream:
        stream.send(http_chunk(event("word") + LAST))
        await stream.settle()
        assert stream.call.response_complete and stream.sent_body.endswith(b"data: [DONE]\n\n")
        assert stream.send(http_chunk(b": late\n\n")) == b"", "the next response begins there"


async def test_error_of_the_engine_ends_the_task_after_what_came_before_it():
    async with relayed() as stream:
        assert b"word" in stream.send(http_chunk(event("word") + b'data: {"error":{"message":"out of memory","code":500}}\n\n'))
        await stream.settle()
        assert stream.task.done() and "out of memory" in str(stream.task.exception())


async def test_what_a_caller_without_room_does_not_take_waits_for_it_and_keeps_its_order():
    async with relayed() as stream:
        stream.send(http_chunk(event("first")))
        stream.caller.flow.pause_writing()
        for word in ("second", "third"):
            assert stream.send(http_chunk(event(word))) == b""
            await stream.settle()
        stream.caller.flow.resume_writing()
        assert stream.send(http_chunk(event("fourth"))) == b"", "what came before it is still with the task"
        await stream.settle()
        assert b"fifth" in stream.send(http_chunk(event("fifth")))
        words = [stream.sent_body.index(word) for word in (b"first", b"second", b"third", b"fourth", b"fifth")]
        assert words == sorted(words)


async def test_block_that_is_long_or_part_of_a_long_event_is_the_tasks():
    async with relayed() as stream:
        assert stream.send(http_chunk(event("x" * 20_000))) == b""
        await stream.settle()
        long = event("y" * 200_000)
        for start in range(0, len(long), 10_000):
            assert stream.send(http_chunk(long[start : start + 10_000])) == b""
            await stream.settle()
        assert b"y" * 200_000 in stream.sent_body and stream.read_blocks > 10


async def test_error_of_the_record_is_raised_in_the_task_and_nothing_more_is_sent():
    async with relayed() as stream:
        stream.record.fault = OSError("the disk is full")
        assert stream.send(http_chunk(event("word"))) == b""
        stream.record.fault = None
        assert stream.send(http_chunk(event("word"))) == b""
        await stream.settle()
        assert isinstance(stream.task.exception(), OSError)


async def test_caller_who_has_left_is_sent_nothing():
    async with relayed() as stream:
        stream.send(http_chunk(event("word")))
        stream.call.on_disconnect()
        assert stream.send(http_chunk(event("word"))) == b""


async def test_chunks_that_are_sent_at_once_keep_the_deadlines_away_and_silence_does_not():
    async with relayed() as stream:
        find_timeout = stream.stream.find_timeout
        assert find_timeout(0.0, stream.engine) is None  # the request is written: 10 s for the first byte
        stream.send(http_chunk(event("word")))
        for now in (9.0, 13.0, 17.0):  # a silence of 5 s is too long
            assert find_timeout(now, stream.engine) is None
            stream.send(http_chunk(event("word")))
        assert find_timeout(17.1, stream.engine) is None
        timed_out = find_timeout(23.0, stream.engine)
        assert timed_out is not None and "Nothing received" in timed_out[1]


@pytest.mark.parametrize("fault", ["reset", "end"])
async def test_connection_that_breaks_off_is_the_tasks_error_after_what_was_sent(fault: str):
    async with relayed() as stream:
        stream.send(http_chunk(event("word")))
        stream.engine.connection_lost(ConnectionResetError() if fault == "reset" else None)
        await stream.settle()
        assert stream.task.exception() is not None and b"word" in stream.record.response


class NoSpool:
    """A place for records, of which none is written."""

    def append_part(self, spool_record: SpoolRecord, kind: int, data: bytes) -> None:
        raise AssertionError("a part of a short stream was written")

    def finish_record(self, spool_record: SpoolRecord, exchange: Exchange, request: bytes, response: bytes) -> None:
        raise AssertionError("the record of a stream that goes on was finished")


async def test_usual_chunk_costs_six_calls():
    async with relayed() as stream:
        for word in ("a", "b", "c"):
            stream.send(http_chunk(event(word)))
        stream.caller.loop_transport = BytesIO()
        stream.stream.receiver = StreamRelay(stream.call, stream.stream, stream.editor, SpoolRecord(NoSpool(), "", "full", 1_000_000))
        sent, profile = http_chunk(event("d")), cProfile.Profile()
        stream.engine.data_received(sent)
        profile.enable()
        for _ in range(100):
            stream.engine.data_received(sent)
        profile.disable()
        calls = {str(each.code): each.callcount for each in profile.getstats() if each.callcount >= 100}
        # In data_received(): StreamRelay.take_chunks(), wire.relay(), SpoolRecord.append_response(), len() and write().
        assert sum(calls.values()) == 600 or not wire.is_native, calls
