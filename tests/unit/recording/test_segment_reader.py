"""Segments: complete records are read, whatever happens to the rest, and nothing else is."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from app.recording.spool.open_segment import OpenSegment
from app.recording.spool.segment_format import ANY_HEADER, EXCHANGE, HEADER, PART_OF_REQUEST, PART_OF_RESPONSE, pack_exchange, pack_part
from app.recording.spool.segment_reader import SegmentReader
from app.recording.spool.segment_records import DamagedBytes, ExchangeRecord, Record
from tests.support.spooled_exchanges import read_records

KEY = bytes(range(16))

bodies = st.lists(st.one_of(st.binary(max_size=40), st.binary(min_size=200, max_size=400)), min_size=1, max_size=8)


@contextmanager
def temporary_folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def write_segment(segment_folder: Path, metas: list[bytes], allocate_bytes: int = 0) -> tuple[OpenSegment, list[int]]:
    """A segment of these records, and the offset at which each ends."""
    segment = OpenSegment(segment_folder, allocate_bytes)
    ends: list[int] = []
    for meta in metas:
        segment.append(EXCHANGE, 0, pack_exchange(len(meta), 0, 0) + meta)
        ends.append(segment.size)
    return segment, ends


def write_orphan_segment(segment: OpenSegment, data: bytes) -> Path:
    """The file of a worker that is gone, with these bytes in it."""
    segment.retire()
    path = segment.path.with_suffix(".spool")
    path.write_bytes(data)
    return path


def read_metas(path: Path) -> list[bytes]:
    reader = SegmentReader(path, 0)
    try:
        return [each.meta for each in read_records(reader)]
    finally:
        reader.close()


@given(bodies, st.data())
def test_truncated_segment_loses_only_the_records_it_cuts(metas: list[bytes], data: st.DataObject) -> None:
    with temporary_folder() as segment_folder:
        segment, ends = write_segment(segment_folder, metas)
        content = segment.path.read_bytes()
        cut = data.draw(st.integers(0, len(content)))
        path = write_orphan_segment(segment, content[:cut])
        reader = SegmentReader(path, 0)
        assert [each.meta for each in read_records(reader)] == [meta for meta, end in zip(metas, ends, strict=True) if end <= cut]
        assert reader.is_finished
        assert reader.torn_records == (cut > len(HEADER) and cut not in ends)
        reader.close()


@given(bodies, st.data())
def test_damaged_segment_loses_only_the_records_it_hits(metas: list[bytes], data: st.DataObject) -> None:
    with temporary_folder() as segment_folder:
        segment, ends = write_segment(segment_folder, metas)
        content = bytearray(segment.path.read_bytes())
        start = data.draw(st.integers(0, len(content) - 1))
        noise = data.draw(st.binary(min_size=1, max_size=60))[: len(content) - start]
        hit = {at for at, (old, new) in enumerate(zip(content[start:], noise, strict=False), start) if old != new}
        content[start : start + len(noise)] = noise
        path = write_orphan_segment(segment, bytes(content))
        starts = [len(HEADER), *ends[:-1]]
        intact = [meta for meta, begin, end in zip(metas, starts, ends, strict=True) if hit.isdisjoint(range(begin, end))]
        header = bytes(content[: len(HEADER)])
        assume(header == HEADER or not ANY_HEADER.fullmatch(header))  # a segment with the header of another version is left unread
        reader = SegmentReader(path, 0)
        found: list[Record] = []
        while some := reader.read(3):
            found += some
        assert [each.meta for each in found if isinstance(each, ExchangeRecord)] == intact
        # All damaged bytes are set aside, and no byte of an intact record.
        set_aside = [at for each in found if isinstance(each, DamagedBytes) for at in range(each.offset, each.end)]
        lost = [at for begin, end in zip(starts, ends, strict=True) if not hit.isdisjoint(range(begin, end)) for at in range(begin, end)]
        assert set_aside == lost or (reader.torn_records and set_aside == [at for at in lost if at < starts[-1]])
        reader.close()


@given(bodies, bodies)
def test_forged_records_inside_caller_content_are_not_read(metas: list[bytes], forged: list[bytes]) -> None:
    """A caller who knows the format, and even another segment, cannot forge records, whatever is damaged."""
    with temporary_folder() as segment_folder:
        other, _ = write_segment(segment_folder, forged)
        forged_segment = other.path.read_bytes()[len(HEADER) :]
        other.retire()
        other.path.unlink()
        segment, ends = write_segment(segment_folder, [*metas, forged_segment, *metas])
        content = bytearray(segment.path.read_bytes())
        content[ends[len(metas) - 1] + 5] ^= 0xFF
        assert read_metas(write_orphan_segment(segment, bytes(content))) == [*metas, *metas]


@given(bodies, st.lists(st.integers(0, 8), max_size=4))
def test_live_segment_is_read_as_it_grows(metas: list[bytes], pauses: list[int]) -> None:
    with temporary_folder() as segment_folder:
        segment = OpenSegment(segment_folder)
        reader = SegmentReader(segment.path, 0)
        found: list[bytes] = []
        for at, meta in enumerate(metas):
            if at in pauses:
                found += [each.meta for each in read_records(reader)]
            segment.append(EXCHANGE, 0, pack_exchange(len(meta), 0, 0) + meta)
        found += [each.meta for each in read_records(reader)]
        assert found == metas
        assert not reader.is_finished
        segment.retire()
        assert reader.read(1) == []
        assert reader.is_finished
        reader.close()


@given(bodies, st.data())
def test_reader_resumes_at_the_committed_offset(metas: list[bytes], data: st.DataObject) -> None:
    with temporary_folder() as segment_folder:
        segment, ends = write_segment(segment_folder, metas)
        at = data.draw(st.integers(0, len(ends) - 1))
        reader = SegmentReader(segment.path, ends[at])
        assert [each.meta for each in read_records(reader)] == metas[at + 1 :]
        reader.close()
        segment.retire()


@given(bodies)
def test_reserved_segment_is_read_to_its_first_zero_and_no_further(metas: list[bytes]) -> None:
    with temporary_folder() as segment_folder:
        segment, _ = write_segment(segment_folder, metas, allocate_bytes=64 * 1024)
        assert segment.path.stat().st_size == 64 * 1024
        reader = SegmentReader(segment.path, 0)
        assert [each.meta for each in read_records(reader)] == metas
        assert not reader.is_finished
        segment.retire()
        assert reader.read(1) == []
        assert reader.is_finished
        assert reader.torn_records == 0
        assert not segment.path.exists()
        assert segment.path.with_suffix(".spool").stat().st_size == segment.size
        reader.close()


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=30)), min_size=1, max_size=12), st.integers(0, 5))
def test_parts_of_an_exchange_are_found_in_order_from_the_last_one(parts: list[tuple[bool, bytes]], unended_parts: int) -> None:
    with temporary_folder() as segment_folder:
        segment = OpenSegment(segment_folder)
        last = 0
        for at, (is_request, data) in enumerate(parts):
            if at < unended_parts:
                segment.append(PART_OF_RESPONSE, 0, pack_part(b"\xff" * 16, 0) + b"another exchange's")
            last = segment.append(PART_OF_REQUEST if is_request else PART_OF_RESPONSE, 0, pack_part(KEY, last) + data)
        segment.append(EXCHANGE, 0, pack_exchange(0, 0, last))
        segment.retire()
        reader = SegmentReader(segment.path, 0)
        (ended,) = read_records(reader)
        assert [(part.is_request, reader.part_content(part)) for part in reader.parts(ended.last_part)] == parts
        assert reader.unfinished_parts == min(unended_parts, len(parts))
        reader.close()
