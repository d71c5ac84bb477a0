"""Laws of a spool without space: nothing is lost in silence, what was written stays readable, and space that is back is used."""

import multiprocessing
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from app.recording.disk_space import REFRESH_EVERY_S
from app.recording.segment_format import list_segments
from app.recording.segment_reader import SegmentReader
from app.recording.spool import Spool, SpoolFull
from app.settings import Settings
from tests.recorded import exchange, read_all, read_folder, record

# A limit on the size of files is set for a whole process.
processes = multiprocessing.get_context("forkserver")


def spool_in(home: Path, **changes: Any) -> Spool:
    given: dict[str, Any] = {"home": home, "spool_reserve_bytes": 16 * 1024} | changes
    return Spool(home / "spool", Settings(**given))


def fill(spool: Spool) -> list[str]:
    """Records until no more is admitted."""
    made: list[str] = []
    with pytest.raises(SpoolFull, match="full"):
        for _ in range(10_000):
            spool.admit()
            made.append(record(spool, b"ask", b"r" * 500).id)
    return made


def look_again(spool: Spool) -> None:
    time.sleep(REFRESH_EVERY_S * 1.1)
    spool.stats()


def test_over_its_bound_it_refuses_and_what_was_admitted_is_recorded_whole(tmp_path: Path) -> None:
    spool = spool_in(tmp_path, spool_max_bytes=20_000)
    running = exchange()
    entry = spool.open(running.id, "full")
    made = fill(spool)
    entry.append_response(b"the end of a long answer")
    entry.close(running)
    found = {id: (policy, reply) for id, policy, _, reply in read_folder(tmp_path / "spool")}
    assert found.keys() == {*made, running.id}
    assert found[running.id] == ("full", b"the end of a long answer")
    assert spool.stats().lost_content == spool.stats().lost_records == 0
    spool.close()


def test_it_admits_again_once_the_writer_has_caught_up_though_no_segment_was_full(tmp_path: Path) -> None:
    spool = spool_in(tmp_path, spool_max_bytes=20_000)
    fill(spool)
    look_again(spool)
    for each in list_segments(tmp_path / "spool"):
        reader = SegmentReader(Path(each.path), 0)
        read_all(reader)
        if reader.is_finished:  # as the writer does
            Path(each.path).unlink()
        reader.close()
    look_again(spool)
    assert fill(spool)
    spool.close()


def test_over_its_bound_it_keeps_metadata_from_the_reserve_and_counts_the_content(tmp_path: Path) -> None:
    spool = spool_in(tmp_path, spool_max_bytes=5_000, spool_when_full="metadata", spool_part_bytes=64)
    made = [record(spool, b"ask", b"r" * 100).id for _ in range(30)]
    streaming = exchange()
    entry = spool.open(streaming.id, "full")
    for _ in range(20):
        entry.append_response(b"x" * 50)
    entry.close(streaming)
    without = exchange(content="none")
    entry = spool.open(without.id, "none")
    entry.append_request(b"never kept, so never lost")
    entry.close(without)
    spool.admit()
    found = {id: (policy, reply) for id, policy, _, reply in read_folder(tmp_path / "spool")}
    assert found.keys() == {*made, streaming.id, without.id}
    lost = [id for id, (policy, _) in found.items() if policy == "lost"]
    assert found[made[0]] == ("full", b"r" * 100)
    assert made[-1] in lost and streaming.id in lost
    assert found[without.id] == ("none", None)
    assert spool.stats().lost_content == len(lost)
    assert spool.stats().lost_records == 0
    spool.close()


def test_what_even_the_reserve_cannot_hold_is_counted_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = spool_in(tmp_path, spool_max_bytes=1, spool_when_full="metadata", spool_reserve_bytes=4096)
    made = [record(spool, b"ask", b"reply").id for _ in range(40)]
    kept = {id for id, *_ in read_folder(tmp_path / "spool")}
    assert 5 < len(kept) < 40
    assert spool.stats().lost_records == len(made) - len(kept)
    assert {record.message.split()[-4] for record in caplog.records if record.levelname == "CRITICAL"} == set(made) - kept
    spool.close()


def test_a_reserve_that_was_used_is_handed_to_the_writer_and_replaced(tmp_path: Path) -> None:
    spool = spool_in(tmp_path, spool_max_bytes=2_000, spool_when_full="metadata", spool_reserve_bytes=4096)
    made = [record(spool, b"ask", b"r" * 100).id for _ in range(10)]
    folder = tmp_path / "spool"
    look_again(spool)
    for each in [each for each in list_segments(folder) if not each.is_reserve]:
        made = [id for id in made if id not in Path(each.path).read_bytes().decode("latin-1")]
        Path(each.path).unlink()
    look_again(spool)
    spool.admit()
    made += [record(spool, b"ask", b"reply").id]
    (reserve,) = [each for each in list_segments(folder) if each.is_reserve]
    assert b"qwen" not in Path(reserve.path).read_bytes()
    assert sorted(id for id, *_ in read_folder(folder)) == sorted(made)
    spool.close()


def on_a_small_disk(home: Path, when_full: str, answer: Any) -> None:
    """The disk takes files of 24 KiB, then of any size again."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (24 * 1024, resource.RLIM_INFINITY))
    spool = spool_in(home, spool_when_full=when_full, spool_part_bytes=2000)
    made = [record(spool, b"ask", os.urandom(3000)).id for _ in range(12)]
    refused = False
    try:
        spool.admit()
    except SpoolFull:
        refused = True
    stats = spool.stats()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    look_again(spool)
    spool.admit()
    made.append(record(spool, b"ask", b"back again").id)
    spool.close()
    answer.send((made, refused, stats.lost_content, stats.lost_records))


@pytest.mark.parametrize("when_full", ["refuse", "metadata"])
def test_a_full_disk_costs_content_of_what_was_admitted_and_no_record(when_full: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        ours, theirs = processes.Pipe()
        process = processes.Process(target=on_a_small_disk, args=(home, when_full, theirs))
        process.start()
        assert ours.poll(20)
        made, refused, lost_content, lost_records = ours.recv()
        process.join()
        assert refused == (when_full == "refuse")
        found = {id: (policy, reply) for id, policy, _, reply in read_folder(home / "spool")}
        assert found.keys() == set(made)
        assert found[made[-1]] == ("full", b"back again")
        lost = [id for id, (policy, _) in found.items() if policy == "lost"]
        assert len(lost) == lost_content > 0
        assert lost_records == 0
        # What was written before is whole: the half written record was taken back.
        for each in list_segments(home / "spool"):
            reader = SegmentReader(Path(each.path), 0)
            read_all(reader)
            assert reader.is_finished
            assert reader.torn_records == 0
            reader.close()
