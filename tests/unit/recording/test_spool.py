"""The spool: every closed record can be read, forbidden content never reaches the disk, and long streams are spilled to disk."""

import asyncio
import fcntl
import itertools
import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.callers import ContentPolicy
from app.domain.exchange import Exchange
from app.recording.content.masking import MaskRules
from app.recording.content.redaction import redact
from app.recording.content.stream_masking import StreamMasker, mask
from app.recording.spool.durability import Durability
from app.recording.spool.open_segment import OpenSegment
from app.recording.spool.segment_format import list_segments
from app.recording.spool.segment_reader import SegmentReader
from app.recording.spool.spool import Spool
from app.recording.spool.writer_status import WriterStatus, write_status
from app.settings import Settings
from providers.canonical.errors import WorkTooLarge
from providers.transport.write_batcher import WriteBatcher
from tests.support.spooled_exchanges import make_exchange, read_folder, read_records, spool_exchange

P = ParamSpec("P")
T = TypeVar("T")

SECRET = b"my secret is a kingfisher"

conversations = st.lists(st.tuples(st.binary(max_size=300), st.lists(st.binary(max_size=120), max_size=6)), min_size=1, max_size=8)


@contextmanager
def open_spool(**changes: Any) -> Generator[tuple[Spool, Path]]:
    """A spool of one worker, and its folder."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        given_settings: dict[str, Any] = {"home": home, "spool_reserve_bytes": 0} | changes
        opened = Spool(home / "spool", Settings(**given_settings))
        yield opened, home / "spool"
        opened.close()


def is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.binary(max_size=300), st.lists(st.binary(max_size=120), max_size=6)), min_size=1, max_size=8), st.integers(1, 99)
)
def test_content_is_read_back_whole_for_every_part_size(contents: list[tuple[bytes, list[bytes]]], part_bytes: int) -> None:
    """All exchanges run at once, a block of each in turn, so that their parts and records interleave."""
    with open_spool(spool_part_bytes=part_bytes, spool_segment_bytes=1500) as (opened, folder):
        exchanges = [make_exchange() for _ in contents]
        spool_records = [opened.open(each.id, "full") for each in exchanges]
        for spool_record, (request, _) in zip(spool_records, contents, strict=True):
            spool_record.append_request(request)
        for blocks in itertools.zip_longest(*(response for _, response in contents)):
            for spool_record, block in zip(spool_records, blocks, strict=True):
                if block is not None:
                    spool_record.append_response(block)
        for spool_record, each in zip(spool_records, exchanges, strict=True):
            spool_record.close(each)
        opened.close()
        expected = [(each.id, "full", request, b"".join(response)) for each, (request, response) in zip(exchanges, contents, strict=True)]
        assert sorted(read_folder(folder)) == sorted(expected)


class Inline:
    """Large work that is done at once, but for the turns of the event loop."""

    turns = 0

    async def mask(self, body: bytes, rules: MaskRules) -> bytes:
        return mask(body, rules)

    async def mask_stream(self, masker: StreamMasker, frames: bytes) -> tuple[StreamMasker, bytes]:
        copied = StreamMasker.decode(masker.encode())
        return copied, copied.feed(frames)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return work(*args, **kwargs)

    async def wait_for_loop_turn(self) -> None:
        self.turns += 1
        await asyncio.sleep(0)


@pytest.mark.parametrize("policy", ["full", "masked", "redacted", "none"])
@pytest.mark.parametrize("size", [1, 99, 100, 101, 1_050])
async def test_large_content_is_recorded_like_any_other(policy: ContentPolicy, size: int) -> None:
    content = b'{"model":"%s"}' % (b"m" * size)
    work = Inline()
    with open_spool(spool_part_bytes=100) as (opened, folder):
        for large in (False, True):
            exchange = make_exchange(content=policy)
            spool_record = opened.open(exchange.id, policy)
            if large:
                await spool_record.append_large_request(content, work)
                await spool_record.append_large_response(content, work)
            else:
                spool_record.append_request(content)
                spool_record.append_response(content)
            spool_record.close(exchange)
        (_, *at_once), (_, *in_turns) = read_folder(folder)
        assert in_turns == at_once == [policy, *((content, content) if policy == "full" else at_once[1:])]
        assert policy != "full" or work.turns == 2 * ((len(content) - 1) // 100)


async def test_large_content_is_recorded_whole_where_the_process_ends_meanwhile() -> None:
    """It is cancelled, or the thread is closed; the record is closed all the same."""

    class Ending(Inline):
        async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
            raise RuntimeError("cannot schedule new futures after shutdown")

        async def wait_for_loop_turn(self) -> None:
            raise asyncio.CancelledError

    content = b'{"model":"%s"}' % (b"m" * 1_050)
    with open_spool(spool_part_bytes=100) as (opened, folder):
        for policy in ("full", "redacted"):
            exchange = make_exchange(content=policy)
            spool_record = opened.open(exchange.id, policy)
            for append in (spool_record.append_large_request, spool_record.append_large_response):
                with pytest.raises((RuntimeError, asyncio.CancelledError)):
                    await append(content, Ending())
            spool_record.close(exchange)
        assert [each[2] for each in read_folder(folder)] == [each[3] for each in read_folder(folder)]
        assert sorted(len(each[2] or b"") for each in read_folder(folder)) == sorted([len(content), len(redact(content))])


@pytest.mark.parametrize("ending", [WorkTooLarge("The request has 9 bytes."), asyncio.CancelledError()], ids=["bound", "caller left"])
async def test_content_that_takes_too_long_to_mask_is_withheld_and_its_request_refused(ending: BaseException) -> None:
    class Ending(Inline):
        async def mask(self, body: bytes, rules: MaskRules) -> bytes:
            raise ending

    content = b'{"messages":["jane@example.com"]}'
    with open_spool() as (opened, folder):
        exchange = make_exchange(content="masked")
        spool_record = opened.open(exchange.id, "masked")
        with pytest.raises(type(ending)):
            await spool_record.append_large_request(content, Ending())
        if isinstance(ending, WorkTooLarge):
            await spool_record.append_large_response(content, Ending())
        else:
            spool_record.append_response(content)
        spool_record.close(exchange)
        response = b"[withheld: 33 bytes]" if isinstance(ending, WorkTooLarge) else b'{"messages":["[masked: email]"]}'
        assert read_folder(folder) == [(exchange.id, "masked", b"[withheld: 33 bytes]", response)]


def test_long_stream_is_spilled_to_disk_before_it_ends() -> None:
    with open_spool(spool_part_bytes=4096) as (opened, folder):
        spool_record = opened.open(make_exchange().id, "full")
        for _ in range(1000):
            spool_record.append_response(b"x" * 100)
        (segment,) = list_segments(folder)
        assert segment.size > 90_000


@settings(max_examples=20)
@given(st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=120)), min_size=1, max_size=40), st.integers(50, 400))
def test_records_of_one_loop_turn_are_on_disk_before_any_response_byte_is_sent(
    contents: list[tuple[bytes, bytes]], part_bytes: int
) -> None:
    """No record is on disk during the turn, but for parts of long content; all are, complete, before the first byte is sent."""

    async def in_one_turn(home: Path) -> list[tuple[str, str, bytes | None, bytes | None]]:
        write_batcher = WriteBatcher()
        opened = Spool(home / "spool", Settings(home=home, spool_reserve_bytes=0, spool_part_bytes=part_bytes), write_batcher)
        caller = SpoolWatchingTransport(home / "spool")
        exchanges: list[Exchange] = []
        for request, response in contents:
            exchanges.append(spool_exchange(opened, request, response))
            write_batcher.write(caller, response)
        spilled = any(len(request) >= part_bytes or len(response) >= part_bytes for request, response in contents)
        assert spilled or read_folder(home / "spool") == []
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [len(there) for there in caller.snapshots] == [len(exchanges)]
        opened.close()
        return [(each.id, "full", request, response) for each, (request, response) in zip(exchanges, contents, strict=True)]

    with tempfile.TemporaryDirectory() as name:
        expected = asyncio.run(in_one_turn(Path(name)))
        assert sorted(read_folder(Path(name) / "spool")) == sorted(expected)


async def test_failing_batch_hook_is_logged_and_does_not_delay_the_write(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise OSError("a disk that fails")

    write_batcher, caller = WriteBatcher(), SpoolWatchingTransport(tmp_path)
    for _ in range(2):
        write_batcher.call_before_flush(fails)
        write_batcher.write(caller, b"a response")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len(caller.snapshots) == 2
    assert len([each for each in caplog.records if each.name == "providers.transport.write_batcher"]) == 2


class SpoolWatchingTransport(asyncio.Transport):
    """A caller's connection that notes what the spool holds when a byte is sent."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.snapshots: list[list[Any]] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.snapshots.append(read_folder(self._folder))


def test_closing_a_record_twice_writes_it_once() -> None:
    with open_spool() as (opened, folder):
        exchange = make_exchange()
        spool_record = opened.open(exchange.id, "full")
        spool_record.close(exchange)
        spool_record.close(exchange)
        assert spool_record.closed
        assert len(read_folder(folder)) == 1


def test_full_segment_is_unlocked_once_its_open_parts_have_ended() -> None:
    with open_spool(spool_segment_bytes=4096, spool_part_bytes=256) as (opened, folder):
        exchange = make_exchange()
        long = opened.open(exchange.id, "full")
        long.append_response(b"the beginning " * 50)
        for _ in range(20):
            spool_exchange(opened, b"ask", b"r" * 300)
        first, *between, _ = [Path(each.path) for each in sorted(list_segments(folder))]
        assert between
        assert is_locked(first)
        assert not any(is_locked(path) for path in between)
        long.append_response(b"and the end")
        long.close(exchange)
        assert not is_locked(first)
        reader = SegmentReader(first, 0)
        assert any(exchange.id.encode() in each.meta for each in read_records(reader))
        assert reader.unfinished_parts == 0
        reader.close()


@pytest.mark.parametrize("part_bytes", [8, 64 * 1024])
def test_content_policy_none_writes_no_content_to_disk(part_bytes: int) -> None:
    with open_spool(spool_part_bytes=part_bytes) as (opened, folder):
        exchange = spool_exchange(opened, SECRET, SECRET, content="none")
        assert read_folder(folder) == [(exchange.id, "none", None, None)]
        assert not any(SECRET in path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("part_bytes", [8, 64 * 1024])
@pytest.mark.parametrize(
    "response",
    [
        b'{"choices":[{"message":{"role":"assistant","content":"%s"}}]}' % SECRET,
        b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % SECRET * 3 + b"data: [DONE]\n\n",
        b'data: {"choices":[{"delta":{"content":"%s' % SECRET,
        b"Internal error: " + SECRET,
    ],
)
def test_content_policy_redacted_writes_only_the_structure_to_disk(part_bytes: int, response: bytes) -> None:
    with open_spool(spool_part_bytes=part_bytes) as (opened, folder):
        exchange = make_exchange(content="redacted")
        spool_record = opened.open(exchange.id, "redacted")
        spool_record.append_request(b'{"model":"qwen3-4b","messages":[{"role":"user","content":"%s"}]}' % SECRET)
        for at in range(0, len(response), 7):
            spool_record.append_response(response[at : at + 7])
        spool_record.close(exchange)
        ((_, policy, request, redacted),) = read_folder(folder)
        assert policy == "redacted"
        assert request == b'{"model":"qwen3-4b","messages":[{"role":"user","content":"[redacted: 25 characters]"}]}'
        assert redacted and redacted.count(b"[redacted: 25 characters]") == response.count(SECRET + b'"')
        assert not any(b"kingfisher" in path.read_bytes() for path in folder.iterdir())


def test_redacted_stream_is_spilled_to_disk_as_it_arrives() -> None:
    with open_spool(spool_part_bytes=1024) as (opened, folder):
        exchange = make_exchange(content="redacted")
        spool_record = opened.open(exchange.id, "redacted")
        for _ in range(500):
            spool_record.append_response(b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % SECRET)
        (segment,) = list_segments(folder)
        assert segment.size > 30_000
        spool_record.close(exchange)
        ((_, _, _, response),) = read_folder(folder)
        assert response == b'data: {"choices":[{"delta":{"content":"[redacted: 25 characters]"}}]}\n\n' * 500


@pytest.mark.parametrize("part_bytes", [10, 1024, 64 * 1024])
@pytest.mark.parametrize("block_bytes", [7, 5_000])
def test_masked_content_never_reaches_the_disk(part_bytes: int, block_bytes: int) -> None:
    """Masked content stays off the disk however frames are cut, even an address across frames."""
    pieces = [b"to jane", b"@exam", b"ple.com and ", b"on. "] * 300
    response = b"".join(b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % piece for piece in pieces) + b"data: [DONE]\n\n"
    with open_spool(spool_part_bytes=part_bytes) as (opened, folder):
        exchange = make_exchange(content="masked")
        spool_record = opened.open(exchange.id, "masked")
        spool_record.append_request(b'{"model":"qwen3-4b","messages":[{"role":"user","content":"I am jane@example.com"}]}')
        for at in range(0, len(response), block_bytes):
            spool_record.append_response(response[at : at + block_bytes])
        if part_bytes < 64 * 1024:
            (segment,) = list_segments(folder)
            assert segment.size > 10_000, "a stream is written as it comes"
        spool_record.close(exchange)
        ((_, policy, request, masked),) = read_folder(folder)
        assert policy == "masked"
        assert request == b'{"model":"qwen3-4b","messages":[{"role":"user","content":"I am [masked: email]"}]}'
        assert masked and masked.count(b"[masked: email]") == 300 and masked.count(b"data: ") == len(pieces) + 1
        assert not any(b"@exam" in path.read_bytes() for path in folder.iterdir())


async def test_masked_stream_is_withheld_where_large_work_fails_midway() -> None:
    class Failing(Inline):
        async def mask_stream(self, masker: StreamMasker, frames: bytes) -> tuple[StreamMasker, bytes]:
            masker.feed(frames)
            raise RuntimeError("cannot schedule new futures after shutdown")

    frame = (
        b'data: {"choices":[{"index":0,"delta":{"content":"jane@"}}]}\n\ndata: {"choices":[{"index":0,"delta":{"content":"a.com"}}]}\n\n'
    )
    with open_spool() as (opened, folder):
        exchange = make_exchange(content="masked")
        spool_record = opened.open(exchange.id, "masked")
        await spool_record.append_large_response(frame, Inline())
        with pytest.raises(RuntimeError):
            await spool_record.append_large_response(frame, Failing())
        spool_record.append_response(frame)
        spool_record.close(exchange)
        ((_, _, _, masked),) = read_folder(folder)
        assert masked and masked.startswith(b"\ndata: [withheld: ") and masked.count(b"data: ") == 1


def test_exchange_with_invalid_unicode_and_huge_numbers_is_recorded() -> None:
    with open_spool() as (opened, folder):
        exchange = spool_exchange(opened, b"ask", b"reply", message="half a pair: \ud83d", tags={"\ud83d": "x"}, duration_us=2**70)
        assert read_folder(folder) == [(exchange.id, "full", b"ask", b"reply")]
        assert opened.stats().lost_records == 0


def test_oldest_record_age_follows_the_writer_status_and_grows_while_it_is_stale() -> None:
    with open_spool() as (opened, folder):
        home = folder.parent
        spool_exchange(opened, b"ask", b"reply")
        assert 0 <= opened.stats().oldest_s < 60
        changed_at = next(list_segments(folder)).changed_at
        write_status(home, WriterStatus(at=changed_at + 1, pid=1, connected=True))
        assert opened.stats().oldest_s == 0
        write_status(home, WriterStatus(at=changed_at - 60, pid=1, connected=True))
        assert 60 <= opened.stats().oldest_s < 120
        write_status(home, WriterStatus(at=changed_at - 60, pid=1, connected=False, oldest_s=100.0))
        assert 160 <= opened.stats().oldest_s < 220


class FailingFsyncSegment(OpenSegment):
    """A segment whose fsyncs fail and are counted: it has a pipe in place of its file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file = self.fd
        self.fd, self.other_end = os.pipe()

    def close_pipe(self) -> None:
        os.close(self.file)
        os.close(self.other_end)
        self.retire()


async def test_concurrent_waiters_share_one_fsync_and_none_returns_before_it(tmp_path: Path) -> None:
    segment = FailingFsyncSegment(tmp_path)
    durability = Durability("group", group_ms=20)

    async def wait_for_fsync() -> int:
        durability.mark_dirty(segment)
        await durability.wait_until_durable()
        return durability.failed

    assert await asyncio.gather(*(wait_for_fsync() for _ in range(20))) == [1] * 20
    assert await asyncio.gather(*(wait_for_fsync() for _ in range(20))) == [2] * 20
    await durability.wait_until_durable()
    assert durability.failed == 2
    segment.close_pipe()


async def test_cancelled_waiter_does_not_stop_the_fsync_of_the_others(tmp_path: Path) -> None:
    segment = FailingFsyncSegment(tmp_path)
    durability = Durability("group", group_ms=20)
    durability.mark_dirty(segment)
    cancelled_waiter, other_waiter = (
        asyncio.create_task(durability.wait_until_durable()),
        asyncio.create_task(durability.wait_until_durable()),
    )
    await asyncio.sleep(0)
    cancelled_waiter.cancel()
    await other_waiter
    assert durability.failed == 1
    segment.close_pipe()


@pytest.mark.parametrize(("mode", "synced"), [("never", 0), ("always", 3)])
async def test_durability_never_and_always_return_without_waiting_for_a_group(
    tmp_path: Path, mode: Literal["never", "always"], synced: int
) -> None:
    segment = FailingFsyncSegment(tmp_path)
    durability = Durability(mode, group_ms=1e9)
    for _ in range(3):
        durability.mark_dirty(segment)
    await durability.wait_until_durable()
    assert durability.failed == synced
    segment.close_pipe()
