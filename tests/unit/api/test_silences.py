"""Silences: who is sent a keep-alive, when, and what is never done to a response for its sake."""

import asyncio
from typing import Any, cast

import pytest

from app.api.callers.response_sink import HttpResponseSink
from app.api.server.http_call import HttpCall
from app.gateway.pipeline.keep_alives import KeepAlives
from app.gateway.state.context import RequestContext
from app.settings import Settings
from providers.dialect import CallerDialect, ResponseMeta
from providers.dialects.catalogue import CALLER_DIALECTS
from providers.transport.loop_turns import PIECE_BYTES
from providers.transport.response_stream import ResponseStream
from tests.unit.api.test_http_call import Connection, WrittenTransport
from tests.unit.api.test_stream_relay import Record

META = ResponseMeta("0198c0de", "episode", "model", 1, True)
COMMENT = b"e\r\n: keep-alive\n\n\r\n"
LONGEST_S = 10.0


class Transport(WrittenTransport):
    """A transport whose caller has not taken `unread` bytes."""

    unread = 0
    closing = False

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.closing


class Blocks:
    """The blocks of an engine's stream, as far as a relay of them is set up."""

    receiver: Any = None


NO_EDITOR: Any = None
RECORD: Any = Record()


async def _nothing(call: HttpCall) -> None:
    pass


class Stream:
    """A stream of this dialect to one caller, and what was written to its connection."""

    def __init__(self, dialect: str = "openai_chat") -> None:
        self.connection: Any = Connection()
        self.connection.transport = self.transport = Transport()
        self.call = HttpCall(self.connection, _nothing, "POST", "/", [], None, http_1_0=False, keep_alive=True)
        self.sink = HttpResponseSink(self.call, RequestContext("chat", self.call))
        self.dialect = CALLER_DIALECTS[dialect]
        self.now_s = 1000.0

    def wait(self, seconds: float) -> bytes:
        """Returns what is written when the silence is looked at after so long."""
        self.now_s += seconds
        before = len(self.transport.written)
        self.sink.check_silence(self.now_s, LONGEST_S, self.dialect, META)
        return b"".join(self.transport.written[before:])


async def test_first_keep_alive_begins_the_response_and_the_engines_frames_follow_without_a_head():
    stream = Stream()
    assert stream.wait(0) == stream.wait(9.9) == b""
    begun = stream.wait(0.2)
    assert begun.startswith(b"HTTP/1.1 200 OK\r\n") and begun.endswith(b"\r\n\r\n" + COMMENT) and stream.sink.holds_caller
    assert stream.wait(9.9) == b"" and stream.wait(0.2) == COMMENT
    await stream.sink.begin_stream(b"data: {}\n\n")
    assert stream.transport.written[-1] == b"a\r\ndata: {}\n\n\r\n" and not stream.sink.holds_caller


async def test_silence_is_counted_from_what_was_sent_last():
    stream = Stream()
    await stream.sink.begin_stream(b"data: 0\n\n")
    for at in range(5):
        assert stream.wait(9) == b""
        await stream.sink.send(b"data: %d\n\n" % at)
    assert stream.wait(9) == b"" and stream.wait(10.1) == COMMENT


@pytest.mark.parametrize("fault", ["unread", "paused", "disconnected", "ended", "closing"])
async def test_caller_who_does_not_take_what_was_written_gets_nothing_more(fault: str):
    stream = Stream()
    await stream.sink.begin_stream(b"data: 0\n\n")
    stream.wait(0)
    match fault:
        case "unread":
            stream.transport.unread = 1
        case "paused":
            stream.connection.flow.pause_writing()
        case "disconnected":
            stream.call.on_disconnect()
        case "ended":
            await stream.sink.end_stream(b"data: [DONE]\n\n")
        case _:
            stream.transport.closing = True
    for _ in range(5):
        assert stream.wait(11) == b""
    if fault == "unread":
        stream.transport.unread = 0
        assert stream.wait(0.1) == COMMENT, "as soon as it reads again"


async def test_nothing_is_put_inside_a_large_part_that_is_written_in_pieces():
    stream = Stream()
    await stream.sink.begin_stream(b"data: 0\n\n")
    stream.wait(0)
    sending = asyncio.create_task(stream.sink.send(b"x" * (8 * PIECE_BYTES)))
    turns = 0
    while not sending.done():
        await asyncio.sleep(0)
        if not sending.done():
            turns += 1
            assert stream.wait(11) == b""
    assert turns, "it was written in one turn: the test shows nothing"
    stream.wait(0)
    assert stream.wait(11) == COMMENT


async def test_response_has_a_head_of_its_own_where_that_of_a_keep_alive_could_not_be_written(monkeypatch: pytest.MonkeyPatch):
    stream = Stream("openai_responses")
    stream.wait(0)
    with monkeypatch.context() as patched:

        def fail(*arguments: Any, **more: Any) -> bytes:
            raise ValueError

        patched.setattr(HttpResponseSink, "_headers", fail)
        with pytest.raises(ValueError):
            stream.wait(11)
    created = b'event: response.created\ndata: {"type":"response.created","sequence_number":0}\n\n'
    await stream.sink.begin_stream(created)
    written = b"".join(stream.transport.written)
    assert written.startswith(b"HTTP/1.1 200 OK\r\n") and created in written


async def test_frames_that_waited_for_the_caller_come_before_a_keep_alive_which_goes_on_with_their_numbers():
    stream = Stream("openai_responses")
    events = [b'event: a\ndata: {"type":"a","sequence_number":%d}\n\n' % number for number in range(2)]
    await stream.sink.begin_stream(events[0])
    stream.connection.flow.pause_writing()
    sending = asyncio.create_task(stream.sink.send(events[1]))
    await asyncio.sleep(0)
    stream.wait(0)
    stream.connection.flow.resume_writing()  # the caller reads again, and the task that sends runs a turn of the loop later
    assert stream.wait(11) == b""
    await sending
    assert events[1] in stream.transport.written[-1] and b'"sequence_number":2}' in stream.wait(11)


async def test_head_that_waits_for_the_caller_is_written_once():
    stream = Stream()
    stream.connection.flow.pause_writing()
    beginning = asyncio.create_task(stream.sink.begin_stream(b"data: 0\n\n"))
    await asyncio.sleep(0)
    stream.connection.flow.resume_writing()
    assert stream.wait(11) == stream.wait(11) == b""
    await beginning
    assert b"".join(stream.transport.written).count(b"HTTP/1.1") == 1


async def test_numbered_events_that_wait_for_the_caller_are_not_overtaken():
    stream = Stream("openai_responses")
    stream.wait(0)
    assert b'"sequence_number":1}' in stream.wait(11)
    stream.connection.flow.pause_writing()
    event = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":2}\n\n'
    sending = asyncio.create_task(stream.sink.begin_stream(event))
    await asyncio.sleep(0)
    stream.connection.flow.resume_writing()
    assert stream.wait(11) == b""
    await sending
    assert b'"sequence_number":2}' in stream.transport.written[-1]
    stream.wait(0)
    assert b'"sequence_number":3}' in stream.wait(11)


async def test_large_frames_behind_a_keep_alive_are_sent_in_pieces_in_order():
    stream = Stream("openai_responses")
    stream.wait(0)
    stream.wait(11)
    count = 3000
    events = b"".join([b'event: a\ndata: {"type":"a","text":"%b","sequence_number":0}\n\n' % (b"x" * 100) for _ in range(count)])
    await stream.sink.begin_stream(b"")
    await stream.sink.end_stream(events)
    written = b"".join(stream.transport.written)
    numbers = [written.index(b'"sequence_number":%d}' % number) for number in range(2, count + 2)]
    assert numbers == sorted(numbers) and written.endswith(b"0\r\n\r\n") and len(stream.transport.written) > 4


class Watched:
    def __init__(self, fails: bool = False) -> None:
        self.checks = 0
        self._fails = fails

    def check_silence(self, now_s: float, longest_s: float, dialect: CallerDialect, meta: ResponseMeta) -> None:
        self.checks += 1
        if self._fails:
            raise ValueError


async def test_stream_that_fails_is_left_alone_and_the_others_are_looked_at(caplog: pytest.LogCaptureFixture):
    keep_alives = KeepAlives(Settings(stream_keep_alive_s=0.01))
    broken, others = Watched(fails=True), [Watched() for _ in range(500)]
    keep_alives.streams.update(dict.fromkeys((broken, *others), (CALLER_DIALECTS["openai_chat"], META)))
    keep_alives.task.start()
    async with asyncio.timeout(60):
        while min(each.checks for each in others) < 3:
            await asyncio.sleep(0.005)
    await keep_alives.task.stop()
    assert broken.checks == 1 and keep_alives.task.failure_count == 0


@pytest.mark.parametrize(("dialect", "goes_on"), [("openai_responses", False), ("openai_chat", True)])
async def test_keep_alive_ends_relaying_past_the_task_only_where_the_frames_after_it_are_edited(dialect: str, goes_on: bool):
    stream, blocks = Stream(dialect), cast(ResponseStream, Blocks())
    await stream.sink.begin_stream(b'event: a\ndata: {"type":"a","sequence_number":0}\n\n')
    stream.sink.relay_at_once(blocks, NO_EDITOR, RECORD)
    stream.wait(0)
    assert blocks.receiver is not None
    assert stream.wait(11)
    assert (blocks.receiver is not None) is goes_on
    blocks.receiver = None
    stream.sink.relay_at_once(blocks, NO_EDITOR, RECORD)
    assert (blocks.receiver is not None) is goes_on, "of a stream that another engine goes on with"
