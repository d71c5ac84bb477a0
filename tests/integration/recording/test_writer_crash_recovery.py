"""Exactly-once writing: each recorded exchange is in Postgres once, whichever process is killed and whenever."""

import asyncio
import dataclasses
import multiprocessing
import os
import random
import time
import uuid
from pathlib import Path

import pytest

from app.recording.spool.spool import Spool
from app.recording.spool.writer_status import read_status
from app.recording.writer.writer import Writer
from app.settings import Settings
from tests.support.processes.fork_server import ForkedProcess
from tests.support.processes.postgres import Postgres, database, postgres
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import WriterProcess, drain, fetch, inference_ids, usage_rows, work_until_killed
from tests.support.spooled_exchanges import spool_exchange

__all__ = ["database", "postgres"]

KEYS = [str(uuid.UUID(int=number)) for number in range(5)]


@pytest.fixture
def settings(database: str, tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path,
        database_url=database,
        writer_batch_ms=5,
        writer_batch_rows=50,
        spool_segment_bytes=20_000,
        spool_part_bytes=500,
        spool_reserve_bytes=0,
        drain_timeout_s=120,
    )


async def record_traffic(spool: Spool, rng: random.Random, seconds: float) -> list[str]:
    """Records responses of all lengths, some spilled, at some hundred a second; returns their ids."""
    made: list[str] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        made += [
            spool_exchange(
                spool,
                b"request",
                b"word " * rng.choice([1, 20, 300]),
                key_id=rng.choice(KEYS),
                charged_input=rng.randrange(100),
                charged_output=rng.randrange(100),
                cost_microusd=rng.choice([None, 7]),
            ).id
            for _ in range(rng.randrange(1, 20))
        ]
        await asyncio.sleep(0.005)
    return made


async def count_rows(settings: Settings) -> int:
    (row,) = await fetch(settings.database_url, "SELECT count(*) AS rows FROM inferences")
    return row["rows"]


async def test_killed_writer_neither_loses_nor_duplicates_records(settings: Settings) -> None:
    rng = random.Random(20)
    spool = Spool(settings.home / "spool", settings)
    made: list[str] = []
    progress = [0]  # rows after each kill; every second kill waits for new ones
    for kill in range(24):
        writer = WriterProcess(settings)
        while not writer.is_running(settings.home):
            made += await record_traffic(spool, rng, 0.02)
        made += await record_traffic(spool, rng, rng.uniform(0.0, 0.2))
        while kill % 2 and await count_rows(settings) == progress[-1]:
            made += await record_traffic(spool, rng, 0.02)
        writer.kill()
        progress.append(await count_rows(settings))
    assert len(set(progress)) > 10, "the kills had nothing to interrupt"
    spool.close()
    status = await drain(settings)
    assert await inference_ids(settings.database_url) == sorted(made)
    assert sum(row[4] for row in await usage_rows(settings.database_url)) == len(made)
    assert (status.quarantined, status.torn_records, status.unfinished_parts) == (0, 0, 0)


async def test_killed_postgres_neither_loses_nor_duplicates_records(settings: Settings, postgres: Postgres) -> None:
    rng = random.Random(4)
    spool = Spool(settings.home / "spool", settings)
    writer = WriterProcess(settings)
    made: list[str] = []
    for _ in range(4):
        made += await record_traffic(spool, rng, rng.uniform(0.2, 0.5))
        postgres.kill()
        made += await record_traffic(spool, rng, 0.1)
        postgres.start()
    spool.close()
    assert writer.stop() == 0
    status = await drain(settings)
    assert await inference_ids(settings.database_url) == sorted(made)
    assert sum(row[4] for row in await usage_rows(settings.database_url)) == len(made)
    assert status.quarantined == 0
    assert not list(settings.home.glob("quarantine/*"))


async def test_killed_worker_loses_no_answered_exchange(settings: Settings) -> None:
    rng = random.Random(6)
    answered: list[str] = []
    writer = WriterProcess(settings)
    for _ in range(20):
        receiver, sender = multiprocessing.Pipe(duplex=False)
        worker = ForkedProcess(target=work_until_killed, args=(settings, sender), daemon=True)
        worker.start()
        sender.close()
        for _ in range(rng.randrange(1, 120)):
            answered.append(receiver.recv())
        worker.kill()
        worker.join()
        try:
            while receiver.poll():
                answered.append(receiver.recv())
        except (EOFError, OSError):
            pass
        receiver.close()
    assert writer.stop() == 0
    await drain(settings)
    ids = await inference_ids(settings.database_url)
    assert len(set(ids)) == len(ids)
    assert set(answered) <= set(ids)
    assert len(ids) <= len(answered) + 20  # at most the one that each worker had not yet reported
    assert not list(settings.home.glob("spool/*.spool"))


async def test_writer_keeps_up_with_two_thousand_records_a_second_in_bounded_memory(settings: Settings) -> None:
    """The rate is two thousand a second of the writer's processor time."""
    settings = Settings(home=settings.home, database_url=settings.database_url, drain_timeout_s=120)
    spool = Spool(settings.home / "spool", settings)
    for _ in range(10_000):
        spool_exchange(spool, b"question " * 80, b"answer %d " * 80)
    for _ in range(30):
        spool_exchange(spool, b"question", random.randbytes(1_000_000))
    spool.close()
    writer = WriterProcess(settings)
    await wait_until(lambda: writer.is_running(settings.home))
    writer_status = read_status(settings.home)
    assert writer_status is not None

    def is_drained() -> bool:
        nonlocal peak_kib, cpu_s
        peak_kib, cpu_s = writer.peak_memory_kib(), processor_seconds(writer_status.pid)
        return not list(settings.home.glob("spool/*.spool"))

    peak_kib, cpu_s = 0, 0.0
    await wait_until(is_drained, 300)
    assert writer.stop() == 0
    assert len(await inference_ids(settings.database_url)) == 10_030
    assert cpu_s < 5
    assert peak_kib < 250 * 1024


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_two_concurrent_writers_do_not_duplicate_records(settings: Settings) -> None:
    """The positions prevent duplicates where the folder's lock has no effect, as on a network file system."""
    rng = random.Random(8)
    spool = Spool(settings.home / "spool", settings)
    stop = asyncio.Event()
    writers = [asyncio.create_task(Writer(settings, stop).run()) for _ in range(2)]
    made = await record_traffic(spool, rng, 1.0)
    spool.close()
    stop.set()
    await asyncio.gather(*writers)
    await drain(settings)
    assert await inference_ids(settings.database_url) == sorted(made)
    assert sum(row[4] for row in await usage_rows(settings.database_url)) == len(made)


async def test_writers_of_several_machines_add_to_the_same_usage_sums(settings: Settings, tmp_path: Path) -> None:
    rng = random.Random(3)
    machines = [dataclasses.replace(settings, home=tmp_path / name, writer_batch_ms=1, writer_batch_rows=20) for name in ("a", "b", "c")]
    spools = [Spool(machine.home / "spool", machine) for machine in machines]
    stop = asyncio.Event()
    writers = [Writer(machine, stop) for machine in machines]
    tasks = [asyncio.create_task(writer.run()) for writer in writers]
    made = await asyncio.gather(*(record_traffic(spool, rng, 1.0) for spool in spools))
    for spool in spools:
        spool.close()
    stop.set()
    await asyncio.gather(*tasks)
    assert sum(row[4] for row in await usage_rows(settings.database_url)) == sum(len(each) for each in made)
    statuses = [read_status(machine.home) for machine in machines]
    assert [status and status.last_error for status in statuses] == [None] * 3
