"""A spool without space: nothing is lost silently, what was written stays readable, and space that becomes free is used."""

import multiprocessing
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from app.recording.spool.disk_space import REFRESH_EVERY_S
from app.recording.spool.segment_format import list_segments
from app.recording.spool.segment_reader import SegmentReader
from app.recording.spool.spool import Spool, SpoolFull
from app.settings import Settings
from tests.support.processes.fork_server import ForkedProcess
from tests.support.spooled_exchanges import make_exchange, read_folder, read_records, spool_exchange


def make_spool(home: Path, **changes: Any) -> Spool:
    settings: dict[str, Any] = {"home": home, "spool_reserve_bytes": 16 * 1024} | changes
    return Spool(home / "spool", Settings(**settings))


def fill_spool(spool: Spool) -> list[str]:
    """Records exchanges until no more is admitted; returns their ids."""
    recorded_ids: list[str] = []
    with pytest.raises(SpoolFull, match="full"):
        for _ in range(10_000):
            spool.check_space()
            recorded_ids.append(spool_exchange(spool, b"ask", b"r" * 500).id)
    return recorded_ids


def refresh_disk_usage(spool: Spool) -> None:
    time.sleep(REFRESH_EVERY_S * 1.1)
    spool.stats()


def test_full_spool_refuses_new_requests_and_records_admitted_ones_whole(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, spool_max_bytes=20_000)
    running = make_exchange()
    spool_record = spool.open(running.id, "full")
    recorded_ids = fill_spool(spool)
    spool_record.append_response(b"the end of a long response")
    spool_record.close(running)
    found = {id: (policy, response) for id, policy, _, response in read_folder(tmp_path / "spool")}
    assert found.keys() == {*recorded_ids, running.id}
    assert found[running.id] == ("full", b"the end of a long response")
    assert spool.stats().lost_content == spool.stats().lost_records == 0
    spool.close()


def test_spool_admits_again_after_the_writer_catches_up_within_open_segments(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, spool_max_bytes=20_000)
    fill_spool(spool)
    refresh_disk_usage(spool)
    for each in list_segments(tmp_path / "spool"):
        reader = SegmentReader(Path(each.path), 0)
        read_records(reader)
        if reader.is_finished:  # as the writer does
            Path(each.path).unlink()
        reader.close()
    refresh_disk_usage(spool)
    assert fill_spool(spool)
    spool.close()


def test_full_spool_keeps_metadata_in_the_reserve_and_counts_lost_content(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, spool_max_bytes=5_000, spool_when_full="metadata", spool_part_bytes=64)
    recorded_ids = [spool_exchange(spool, b"ask", b"r" * 100).id for _ in range(30)]
    streaming = make_exchange()
    spool_record = spool.open(streaming.id, "full")
    for _ in range(20):
        spool_record.append_response(b"x" * 50)
    spool_record.close(streaming)
    without_content = make_exchange(content="none")
    spool_record = spool.open(without_content.id, "none")
    spool_record.append_request(b"never kept, so never lost")
    spool_record.close(without_content)
    spool.check_space()
    found = {id: (policy, response) for id, policy, _, response in read_folder(tmp_path / "spool")}
    assert found.keys() == {*recorded_ids, streaming.id, without_content.id}
    lost = [id for id, (policy, _) in found.items() if policy == "lost"]
    assert found[recorded_ids[0]] == ("full", b"r" * 100)
    assert recorded_ids[-1] in lost and streaming.id in lost
    assert found[without_content.id] == ("none", None)
    assert spool.stats().lost_content == len(lost)
    assert spool.stats().lost_records == 0
    spool.close()


def test_records_beyond_the_reserve_are_counted_and_logged_as_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = make_spool(tmp_path, spool_max_bytes=1, spool_when_full="metadata", spool_reserve_bytes=4096)
    recorded_ids = [spool_exchange(spool, b"ask", b"reply").id for _ in range(40)]
    kept_ids = {id for id, *_ in read_folder(tmp_path / "spool")}
    assert 5 < len(kept_ids) < 40
    assert spool.stats().lost_records == len(recorded_ids) - len(kept_ids)
    assert {record.message.split()[-4] for record in caplog.records if record.levelname == "CRITICAL"} == set(recorded_ids) - kept_ids
    spool.close()


def test_used_reserve_is_handed_to_the_writer_and_replaced(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, spool_max_bytes=2_000, spool_when_full="metadata", spool_reserve_bytes=4096)
    recorded_ids = [spool_exchange(spool, b"ask", b"r" * 100).id for _ in range(10)]
    folder = tmp_path / "spool"
    refresh_disk_usage(spool)
    for each in [each for each in list_segments(folder) if not each.is_reserve]:
        recorded_ids = [id for id in recorded_ids if id not in Path(each.path).read_bytes().decode("latin-1")]
        Path(each.path).unlink()
    refresh_disk_usage(spool)
    spool.check_space()
    recorded_ids += [spool_exchange(spool, b"ask", b"reply").id]
    (reserve,) = [each for each in list_segments(folder) if each.is_reserve]
    assert b"qwen" not in Path(reserve.path).read_bytes()
    assert sorted(id for id, *_ in read_folder(folder)) == sorted(recorded_ids)
    spool.close()


def record_on_a_small_disk(home: Path, when_full: str, result_pipe: Any) -> None:
    """The disk holds files of 24 KiB at most, then of any size again."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (24 * 1024, resource.RLIM_INFINITY))
    spool = make_spool(home, spool_when_full=when_full, spool_part_bytes=2000)
    recorded_ids = [spool_exchange(spool, b"ask", os.urandom(3000)).id for _ in range(12)]
    refused = False
    try:
        spool.check_space()
    except SpoolFull:
        refused = True
    stats = spool.stats()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    refresh_disk_usage(spool)
    spool.check_space()
    recorded_ids.append(spool_exchange(spool, b"ask", b"back again").id)
    spool.close()
    result_pipe.send((recorded_ids, refused, stats.lost_content, stats.lost_records))


@pytest.mark.parametrize("when_full", ["refuse", "metadata"])
def test_full_disk_loses_content_but_no_record(when_full: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        receiver, sender = multiprocessing.Pipe()
        # The limit on file sizes holds for a whole process.
        process = ForkedProcess(target=record_on_a_small_disk, args=(home, when_full, sender))
        process.start()
        assert receiver.poll(60)
        recorded_ids, refused, lost_content, lost_records = receiver.recv()
        process.join()
        assert refused == (when_full == "refuse")
        found = {id: (policy, response) for id, policy, _, response in read_folder(home / "spool")}
        assert found.keys() == set(recorded_ids)
        assert found[recorded_ids[-1]] == ("full", b"back again")
        lost = [id for id, (policy, _) in found.items() if policy == "lost"]
        assert len(lost) == lost_content > 0
        assert lost_records == 0
        # What was written before is complete: the half-written record was removed.
        for each in list_segments(home / "spool"):
            reader = SegmentReader(Path(each.path), 0)
            read_records(reader)
            assert reader.is_finished
            assert reader.torn_records == 0
            reader.close()
