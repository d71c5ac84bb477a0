"""Streams with masked content: large frames are masked beside the event loop, recorded in their order, and wait for nobody."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import pytest

from app.domain.callers import MaskConfig
from app.domain.exchange import Exchange
from app.gateway.large_body.body_size import LARGE_BYTES, SMALL_BYTES
from app.gateway.pipeline.masked_stream import MaskedStream
from app.recording.content.masking import MaskRules, compile_rules
from app.recording.content.stream_masking import StreamMasker
from app.recording.spool.spool_record import SpoolRecord
from providers.canonical.errors import Unavailable, WorkTooLarge
from tests.support.spooled_exchanges import make_exchange

P = ParamSpec("P")
T = TypeVar("T")


class Work:
    """Masks nothing before it may: `go_on`. `fault`: what it raises then."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.begun = self.ended = 0
        self.fault: Exception | None = None

    async def mask(self, body: bytes, rules: MaskRules) -> bytes:
        raise AssertionError("it is a stream")

    async def mask_stream(self, masker: StreamMasker, frames: bytes) -> tuple[StreamMasker, bytes]:
        self.begun += 1
        try:
            await self.go_on.wait()
        finally:
            self.ended += 1
        if self.fault is not None:
            raise self.fault
        copied = StreamMasker.decode(masker.encode())
        return copied, copied.feed(frames)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        raise AssertionError("the team's rules run in a process")

    async def wait_for_loop_turn(self) -> None:
        await asyncio.sleep(0)


class Written:
    """Implements RecordSink."""

    def __init__(self) -> None:
        self.response = b""

    def append_part(self, spool_record: SpoolRecord, kind: int, data: bytes) -> None:
        self.response += data

    def finish_record(self, spool_record: SpoolRecord, exchange: Exchange, request: bytes, response: bytes) -> None:
        self.response += response


class Stream:
    def __init__(self) -> None:
        self.work, self.written = Work(), Written()
        self.exchange = make_exchange(content="masked")
        self.record = SpoolRecord(self.written, self.exchange.id, "masked", 1_000, compile_rules(MaskConfig()))
        self.masked = MaskedStream(self.record, self.work)

    async def end(self) -> bytes:
        await self.masked.stop()
        self.record.close(self.exchange)
        return self.written.response


def frame(text: str) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % text.encode()


LARGE = "row " * SMALL_BYTES
MAIL = "jane@example.com"


async def test_frames_are_recorded_in_their_order_while_a_large_one_is_masked() -> None:
    stream = Stream()
    frames = [frame(text) for text in ("one", LARGE, "two", LARGE + MAIL, f" {MAIL} ", "three")]
    for each in frames:
        stream.masked.add(each)
        await stream.masked.make_room()  # which does not wait here
        await asyncio.sleep(0)
    stream.work.go_on.set()
    await stream.masked.record_all()
    assert stream.work.begun == 2, "what has come meanwhile is masked at once"
    assert await stream.end() == b"".join(frames).replace(MAIL.encode(), b"[masked: email]")


async def test_small_frames_are_recorded_at_once() -> None:
    stream = Stream()
    for _ in range(100):
        stream.masked.add(frame(f" {MAIL} "))
    assert not stream.work.begun
    assert (await stream.end()).count(b"[masked: email]") == 100


async def test_engine_waits_once_too_much_waits_to_be_masked() -> None:
    stream = Stream()
    stream.masked.add(frame(LARGE))
    await asyncio.sleep(0)  # it is being masked
    for _ in range(LARGE_BYTES // len(frame(LARGE)) + 1):
        stream.masked.add(frame(LARGE))
    waiting = asyncio.create_task(stream.masked.make_room())
    await asyncio.sleep(0)
    assert not waiting.done() and not stream.written.response
    stream.work.go_on.set()
    await waiting
    assert (await stream.end()).count(b"row ") > LARGE_BYTES / 4


@pytest.mark.parametrize("has_begun", [True, False], ids=["begun", "not_begun"])
async def test_caller_who_leaves_ends_the_work_and_nothing_unmasked_is_recorded(has_begun: bool) -> None:
    stream = Stream()
    frames = [frame(text) for text in (MAIL[:6], MAIL[6:] + LARGE, MAIL)]
    for each in frames:
        stream.masked.add(each)
    if has_begun:
        await asyncio.sleep(0)
    recorded = await stream.end()
    assert stream.work.begun == stream.work.ended == has_begun
    withheld = sum(map(len, frames))
    assert recorded.startswith(b"\ndata: [withheld: ") and recorded.endswith(b" bytes]\n\n") and recorded.count(b"data:") == 1
    assert withheld - 20 < int(recorded.split()[2]) <= withheld


@pytest.mark.parametrize("fault", [WorkTooLarge("too large"), Unavailable("no process")], ids=["bound", "no_process"])
async def test_stream_goes_on_and_is_withheld_from_what_cannot_be_masked(fault: Exception) -> None:
    stream = Stream()
    stream.work.go_on.set()
    stream.masked.add(frame("before " + LARGE))
    await stream.masked.record_all()
    stream.work.fault = fault
    for text in (LARGE + MAIL, MAIL, LARGE + MAIL, MAIL):
        stream.masked.add(frame(text))
        await stream.masked.record_all()
    assert stream.work.begun == 2, "one attempt is enough: each may take all of the time that one may"
    recorded = await stream.end()
    assert recorded.startswith(frame("before " + LARGE)) and MAIL.encode() not in recorded
    assert recorded.removeprefix(frame("before " + LARGE)).startswith(b"data: [withheld: ")
    assert recorded.count(b"data:") == 2


async def test_fault_of_the_gateway_ends_the_stream_with_it() -> None:
    stream = Stream()
    stream.work.go_on.set()
    stream.work.fault = RuntimeError("cannot schedule new futures after shutdown")
    stream.masked.add(frame(LARGE + MAIL))
    with pytest.raises(RuntimeError):
        await stream.masked.record_all()
    assert MAIL.encode() not in await stream.end()
