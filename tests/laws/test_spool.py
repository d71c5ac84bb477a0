"""Laws of the spool: everything that was closed can be read, what the policy forbids never reaches the disk, memory stays small."""

import asyncio
import fcntl
import itertools
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain import Exchange
from app.recording.durability import Durability
from app.recording.open_segment import OpenSegment
from app.recording.segment_format import list_segments
from app.recording.segment_reader import SegmentReader
from app.recording.spool import Spool
from app.recording.writer_status import WriterStatus, write_status
from app.settings import Settings
from providers.transport.write_batcher import WriteBatcher
from tests.recorded import exchange, read_all, read_folder, record

SECRET = b"my secret is a kingfisher"

conversations = st.lists(st.tuples(st.binary(max_size=300), st.lists(st.binary(max_size=120), max_size=6)), min_size=1, max_size=8)


@contextmanager
def spool(**changes: Any) -> Generator[tuple[Spool, Path]]:
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
def test_what_was_said_is_read_back_whole_however_it_was_spilled(said: list[tuple[bytes, list[bytes]]], part_bytes: int) -> None:
    """All exchanges run at once, a block of each in turn; parts and records of some lie between those of others."""
    with spool(spool_part_bytes=part_bytes, spool_segment_bytes=1500) as (opened, folder):
        made = [exchange() for _ in said]
        entries = [opened.open(each.id, "full") for each in made]
        for entry, (ask, _) in zip(entries, said, strict=True):
            entry.append_request(ask)
        for blocks in itertools.zip_longest(*(reply for _, reply in said)):
            for entry, block in zip(entries, blocks, strict=True):
                if block is not None:
                    entry.append_response(block)
        for entry, each in zip(entries, made, strict=True):
            entry.close(each)
        opened.close()
        expected = [(each.id, "full", ask, b"".join(reply)) for each, (ask, reply) in zip(made, said, strict=True)]
        assert sorted(read_folder(folder)) == sorted(expected)


def test_a_long_stream_takes_little_memory() -> None:
    with spool(spool_part_bytes=4096) as (opened, folder):
        entry = opened.open(exchange().id, "full")
        for _ in range(1000):
            entry.append_response(b"x" * 100)
        (segment,) = list_segments(folder)
        assert segment.size > 90_000


@settings(max_examples=20)
@given(st.lists(st.tuples(st.binary(max_size=300), st.binary(max_size=120)), min_size=1, max_size=40), st.integers(50, 400))
def test_what_ends_in_one_turn_is_written_down_before_any_of_it_leaves(said: list[tuple[bytes, bytes]], part_bytes: int) -> None:
    """None is on disk while the turn goes on, all are when a byte leaves, and they are read back whole."""

    async def in_one_turn(home: Path) -> list[tuple[str, str, bytes | None, bytes | None]]:
        turn = WriteBatcher()
        opened = Spool(home / "spool", Settings(home=home, spool_reserve_bytes=0, spool_part_bytes=part_bytes), turn)
        caller = Caller(home / "spool")
        made: list[Exchange] = []
        for ask, reply in said:
            made.append(record(opened, ask, reply))
            turn.write(caller, reply)
        spilled = any(len(ask) >= part_bytes or len(reply) >= part_bytes for ask, reply in said)
        assert spilled or read_folder(home / "spool") == []
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [len(there) for there in caller.there] == [len(made)]
        opened.close()
        return [(each.id, "full", ask, reply) for each, (ask, reply) in zip(made, said, strict=True)]

    with tempfile.TemporaryDirectory() as name:
        expected = asyncio.run(in_one_turn(Path(name)))
        assert sorted(read_folder(Path(name) / "spool")) == sorted(expected)


async def test_what_cannot_be_done_first_holds_no_write_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> None:
        raise OSError("a disk that fails")

    turn, caller = WriteBatcher(), Caller(tmp_path)
    for _ in range(2):
        turn.call_before_flush(fails)
        turn.write(caller, b"an answer")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert len(caller.there) == 2
    assert len([each for each in caplog.records if each.name == "providers.transport.write_batcher"]) == 2


class Caller(asyncio.Transport):
    """A caller's connection that looks, when a byte leaves, at what the spool holds by then."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.there: list[list[Any]] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.there.append(read_folder(self._folder))


def test_closing_twice_records_once() -> None:
    with spool() as (opened, folder):
        made = exchange()
        entry = opened.open(made.id, "full")
        entry.close(made)
        entry.close(made)
        assert entry.closed
        assert len(read_folder(folder)) == 1


def test_a_full_segment_is_let_go_and_one_with_open_parts_once_they_have_ended() -> None:
    with spool(spool_segment_bytes=4096, spool_part_bytes=256) as (opened, folder):
        made = exchange()
        long = opened.open(made.id, "full")
        long.append_response(b"the beginning " * 50)
        for _ in range(20):
            record(opened, b"ask", b"r" * 300)
        first, *between, _ = [Path(each.path) for each in sorted(list_segments(folder))]
        assert between
        assert is_locked(first)
        assert not any(is_locked(path) for path in between)
        long.append_response(b"and the end")
        long.close(made)
        assert not is_locked(first)
        reader = SegmentReader(first, 0)
        assert any(made.id.encode() in each.meta for each in read_all(reader))
        assert reader.unfinished_parts == 0
        reader.close()


@pytest.mark.parametrize("part_bytes", [8, 64 * 1024])
def test_nothing_said_reaches_the_disk_where_the_policy_is_none(part_bytes: int) -> None:
    with spool(spool_part_bytes=part_bytes) as (opened, folder):
        made = record(opened, SECRET, SECRET, content="none")
        assert read_folder(folder) == [(made.id, "none", None, None)]
        assert not any(SECRET in path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize("part_bytes", [8, 64 * 1024])
@pytest.mark.parametrize(
    "reply",
    [
        b'{"choices":[{"message":{"role":"assistant","content":"%s"}}]}' % SECRET,
        b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % SECRET * 3 + b"data: [DONE]\n\n",
        b'data: {"choices":[{"delta":{"content":"%s' % SECRET,
        b"Internal error: " + SECRET,
    ],
)
def test_only_structure_reaches_the_disk_where_the_policy_is_redacted(part_bytes: int, reply: bytes) -> None:
    with spool(spool_part_bytes=part_bytes) as (opened, folder):
        made = exchange(content="redacted")
        entry = opened.open(made.id, "redacted")
        entry.append_request(b'{"model":"qwen3-4b","messages":[{"role":"user","content":"%s"}]}' % SECRET)
        for at in range(0, len(reply), 7):
            entry.append_response(reply[at : at + 7])
        entry.close(made)
        ((_, policy, ask, redacted),) = read_folder(folder)
        assert policy == "redacted"
        assert ask == b'{"model":"qwen3-4b","messages":[{"role":"user","content":"[redacted: 25 characters]"}]}'
        assert redacted and redacted.count(b"[redacted: 25 characters]") == reply.count(SECRET + b'"')
        assert not any(b"kingfisher" in path.read_bytes() for path in folder.iterdir())


def test_a_redacted_stream_is_spilled_as_it_goes() -> None:
    with spool(spool_part_bytes=1024) as (opened, folder):
        made = exchange(content="redacted")
        entry = opened.open(made.id, "redacted")
        for _ in range(500):
            entry.append_response(b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % SECRET)
        (segment,) = list_segments(folder)
        assert segment.size > 30_000
        entry.close(made)
        ((_, _, _, reply),) = read_folder(folder)
        assert reply == b'data: {"choices":[{"delta":{"content":"[redacted: 25 characters]"}}]}\n\n' * 500


def test_an_exchange_that_no_wire_should_have_let_through_is_recorded_all_the_same() -> None:
    with spool() as (opened, folder):
        made = record(opened, b"ask", b"reply", message="half a pair: \ud83d", tags={"\ud83d": "x"}, duration_us=2**70)
        assert read_folder(folder) == [(made.id, "full", b"ask", b"reply")]
        assert opened.stats().lost_records == 0


def test_the_age_of_the_oldest_is_the_writers_word_and_grows_when_it_is_silent() -> None:
    with spool() as (opened, folder):
        home = folder.parent
        record(opened, b"ask", b"reply")
        assert 0 <= opened.stats().oldest_s < 5
        changed_at = next(list_segments(folder)).changed_at
        write_status(home, WriterStatus(at=changed_at + 1, pid=1, connected=True))
        assert opened.stats().oldest_s == 0
        write_status(home, WriterStatus(at=changed_at - 60, pid=1, connected=True))
        assert 60 <= opened.stats().oldest_s < 70
        write_status(home, WriterStatus(at=changed_at - 60, pid=1, connected=False, oldest_s=100.0))
        assert 160 <= opened.stats().oldest_s < 170


class Unsyncable(OpenSegment):
    """A segment whose fsyncs fail, each of which is counted: a pipe in the place of its file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file = self.fd
        self.fd, self.other_end = os.pipe()

    def end(self) -> None:
        os.close(self.file)
        os.close(self.other_end)
        self.retire()


async def test_those_that_come_together_share_one_fsync_and_none_returns_before_it(tmp_path: Path) -> None:
    segment = Unsyncable(tmp_path)
    durability = Durability("group", group_ms=20)

    async def keep() -> int:
        durability.mark_dirty(segment)
        await durability.wait_until_durable()
        return durability.failed

    assert await asyncio.gather(*(keep() for _ in range(20))) == [1] * 20
    assert await asyncio.gather(*(keep() for _ in range(20))) == [2] * 20
    await durability.wait_until_durable()
    assert durability.failed == 2
    segment.end()


async def test_a_caller_who_leaves_does_not_stop_the_fsync_of_the_others(tmp_path: Path) -> None:
    segment = Unsyncable(tmp_path)
    durability = Durability("group", group_ms=20)
    durability.mark_dirty(segment)
    leaver, stayer = asyncio.create_task(durability.wait_until_durable()), asyncio.create_task(durability.wait_until_durable())
    await asyncio.sleep(0)
    leaver.cancel()
    await stayer
    assert durability.failed == 1
    segment.end()


@pytest.mark.parametrize(("mode", "synced"), [("never", 0), ("always", 3)])
async def test_without_a_group_there_is_nothing_to_wait_for(tmp_path: Path, mode: Literal["never", "always"], synced: int) -> None:
    segment = Unsyncable(tmp_path)
    durability = Durability(mode, group_ms=1e9)
    for _ in range(3):
        durability.mark_dirty(segment)
    await durability.wait_until_durable()
    assert durability.failed == synced
    segment.end()
