"""Laws of segments: what was written whole is read, whatever happens to the rest, and nothing else is."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from app.recording.open_segment import OpenSegment
from app.recording.segment_format import ANY_HEADER, EXCHANGE, HEADER, PART_OF_REQUEST, PART_OF_RESPONSE, pack_exchange, pack_part
from app.recording.segment_reader import DamagedBytes, ExchangeRecord, SegmentReader
from tests.recorded import read_all

KEY = bytes(range(16))

bodies = st.lists(st.one_of(st.binary(max_size=40), st.binary(min_size=200, max_size=400)), min_size=1, max_size=8)


@contextmanager
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def write(place: Path, metas: list[bytes], allocate_bytes: int = 0) -> tuple[OpenSegment, list[int]]:
    """A segment of these records, and the offset at which each ends."""
    segment = OpenSegment(place, allocate_bytes)
    ends: list[int] = []
    for meta in metas:
        segment.append(EXCHANGE, 0, pack_exchange(len(meta), 0, 0) + meta)
        ends.append(segment.size)
    return segment, ends


def left_behind(segment: OpenSegment, data: bytes) -> Path:
    """The file of a worker that is gone, with these bytes in it."""
    segment.retire()
    path = segment.path.with_suffix(".spool")
    path.write_bytes(data)
    return path


def metas_in(path: Path) -> list[bytes]:
    reader = SegmentReader(path, 0)
    try:
        return [each.meta for each in read_all(reader)]
    finally:
        reader.close()


@given(bodies, st.data())
def test_a_cut_costs_only_what_it_cuts(metas: list[bytes], data: st.DataObject) -> None:
    with folder() as place:
        segment, ends = write(place, metas)
        whole = segment.path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        path = left_behind(segment, whole[:cut])
        reader = SegmentReader(path, 0)
        assert [each.meta for each in read_all(reader)] == [meta for meta, end in zip(metas, ends, strict=True) if end <= cut]
        assert reader.is_finished
        assert reader.torn_records == (cut > len(HEADER) and cut not in ends)
        reader.close()


@given(bodies, st.data())
def test_damage_costs_only_what_it_hits(metas: list[bytes], data: st.DataObject) -> None:
    with folder() as place:
        segment, ends = write(place, metas)
        whole = bytearray(segment.path.read_bytes())
        start = data.draw(st.integers(0, len(whole) - 1))
        noise = data.draw(st.binary(min_size=1, max_size=60))[: len(whole) - start]
        hit = {at for at, (old, new) in enumerate(zip(whole[start:], noise, strict=False), start) if old != new}
        whole[start : start + len(noise)] = noise
        path = left_behind(segment, bytes(whole))
        starts = [len(HEADER), *ends[:-1]]
        intact = [meta for meta, begin, end in zip(metas, starts, ends, strict=True) if hit.isdisjoint(range(begin, end))]
        header = bytes(whole[: len(HEADER)])
        assume(header == HEADER or not ANY_HEADER.fullmatch(header))  # the header of another version: such a segment is left alone, whole
        reader = SegmentReader(path, 0)
        found: list[ExchangeRecord | DamagedBytes] = []
        while some := reader.read(3):
            found += some
        assert [each.meta for each in found if isinstance(each, ExchangeRecord)] == intact
        # All that is not a record is set aside, and no byte that is one.
        aside = [at for each in found if isinstance(each, DamagedBytes) for at in range(each.offset, each.end)]
        lost = [at for begin, end in zip(starts, ends, strict=True) if not hit.isdisjoint(range(begin, end)) for at in range(begin, end)]
        assert aside == lost or (reader.torn_records and aside == [at for at in lost if at < starts[-1]])
        reader.close()


@given(bodies, bodies)
def test_records_inside_of_what_a_caller_said_are_no_records(metas: list[bytes], forged: list[bytes]) -> None:
    """A caller who knows the format, and even another segment, gets nothing recorded under another name, whatever is damaged."""
    with folder() as place:
        other, _ = write(place, forged)
        smuggled = other.path.read_bytes()[len(HEADER) :]
        other.retire()
        other.path.unlink()
        segment, ends = write(place, [*metas, smuggled, *metas])
        whole = bytearray(segment.path.read_bytes())
        whole[ends[len(metas) - 1] + 5] ^= 0xFF
        assert metas_in(left_behind(segment, bytes(whole))) == [*metas, *metas]


@given(bodies, st.lists(st.integers(0, 8), max_size=4))
def test_a_live_segment_is_read_as_it_grows(metas: list[bytes], pauses: list[int]) -> None:
    with folder() as place:
        segment = OpenSegment(place)
        reader = SegmentReader(segment.path, 0)
        found: list[bytes] = []
        for at, meta in enumerate(metas):
            if at in pauses:
                found += [each.meta for each in read_all(reader)]
            segment.append(EXCHANGE, 0, pack_exchange(len(meta), 0, 0) + meta)
        found += [each.meta for each in read_all(reader)]
        assert found == metas
        assert not reader.is_finished
        segment.retire()
        assert reader.read(1) == []
        assert reader.is_finished
        reader.close()


@given(bodies, st.data())
def test_another_reader_goes_on_where_the_last_one_committed(metas: list[bytes], data: st.DataObject) -> None:
    with folder() as place:
        segment, ends = write(place, metas)
        at = data.draw(st.integers(0, len(ends) - 1))
        reader = SegmentReader(segment.path, ends[at])
        assert [each.meta for each in read_all(reader)] == metas[at + 1 :]
        reader.close()
        segment.retire()


@given(bodies)
def test_a_reserve_is_read_to_the_first_zero_and_no_further(metas: list[bytes]) -> None:
    with folder() as place:
        segment, _ = write(place, metas, allocate_bytes=64 * 1024)
        assert segment.path.stat().st_size == 64 * 1024
        reader = SegmentReader(segment.path, 0)
        assert [each.meta for each in read_all(reader)] == metas
        assert not reader.is_finished
        segment.retire()
        assert reader.read(1) == []
        assert reader.is_finished
        assert reader.torn_records == 0
        assert not segment.path.exists()
        assert segment.path.with_suffix(".spool").stat().st_size == segment.size
        reader.close()


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=30)), min_size=1, max_size=12), st.integers(0, 5))
def test_parts_are_found_in_order_from_the_end(parts: list[tuple[bool, bytes]], strangers: int) -> None:
    with folder() as place:
        segment = OpenSegment(place)
        last = 0
        for at, (is_ask, data) in enumerate(parts):
            if at < strangers:
                segment.append(PART_OF_RESPONSE, 0, pack_part(b"\xff" * 16, 0) + b"another exchange's")
            last = segment.append(PART_OF_REQUEST if is_ask else PART_OF_RESPONSE, 0, pack_part(KEY, last) + data)
        segment.append(EXCHANGE, 0, pack_exchange(0, 0, last))
        segment.retire()
        reader = SegmentReader(segment.path, 0)
        (ended,) = read_all(reader)
        assert [(part.is_request, reader.part_content(part)) for part in reader.parts(ended.last_part)] == parts
        assert reader.unfinished_parts == min(strangers, len(parts))
        reader.close()
