"""A writer in this process or in one of its own, and queries of what it wrote."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from app.recording.spool.spool import Spool
from app.recording.spool.writer_status import WriterStatus, read_status
from app.recording.writer.writer import run_spool_writer
from app.settings import Settings
from app.store.formats.content_packing import unpack
from app.store.postgres.database import connect
from app.supervisor import run_writer
from tests.support.processes.fork_server import ForkedProcess
from tests.support.spooled_exchanges import make_exchange


class WriterProcess:
    """A writer that can be killed."""

    def __init__(self, settings: Settings) -> None:
        # A kill every few milliseconds needs processes that start quickly.
        self._process = ForkedProcess(target=run_writer.main, args=(settings,), daemon=True)
        self._process.start()

    def is_running(self, home: Path) -> bool:
        status = read_status(home)
        return status is not None and status.pid == self._process.pid

    def peak_memory_kib(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()

    def stop(self) -> int | None:
        """Lets it drain and end, and returns its exit code."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGTERM)
        self._process.join(120)
        code = self._process.exitcode
        self.kill()
        return code


@contextlib.asynccontextmanager
async def running_writer(settings: Settings) -> AsyncGenerator[None]:
    """A writer in this process, which drains the spool at the end."""
    stop = asyncio.Event()
    task = asyncio.create_task(run_spool_writer(settings, stop=stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def drain(settings: Settings) -> WriterStatus:
    """Writes what the spool holds, and returns the writer's status."""
    async with running_writer(settings):
        pass
    status = read_status(settings.home)
    assert status is not None
    return status


async def fetch(database: str, sql: str, *arguments: Any) -> list[Any]:
    connection = await connect(database)
    try:
        return await connection.fetch(sql, *arguments)
    finally:
        await connection.close()


async def inference_ids(database: str) -> list[str]:
    """The sorted ids of all inferences. Asserts that each has its content exactly once."""
    rows = await fetch(database, "SELECT id::text AS id FROM inferences ORDER BY id")
    contents = await fetch(database, "SELECT id::text AS id FROM inference_content ORDER BY id")
    ids = [row["id"] for row in rows]
    assert [row["id"] for row in contents] == ids
    return ids


async def usage_rows(database: str) -> list[tuple[Any, ...]]:
    """The rows of the usage table. Asserts that they equal the sums of the inferences."""
    rolled_up = await fetch(database, "SELECT * FROM usage ORDER BY key_id, hour, team_id, model")
    added = await fetch(
        database,
        """
        SELECT key_id, date_trunc('hour', received_at, 'UTC') AS hour, team_id, model, count(*), count(*) FILTER (WHERE outcome = 'failed'),
            coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
            coalesce(sum(cached_tokens), 0), coalesce(sum(reasoning_tokens), 0),
            sum(charged_input), sum(charged_output), coalesce(sum(cost_microusd), 0), count(*) FILTER (WHERE cost_microusd IS NULL)
        FROM inferences GROUP BY key_id, hour, team_id, model ORDER BY key_id, hour, team_id, model
        """,
    )
    rows = [tuple(row.values()) for row in rolled_up]
    assert rows == [tuple(row.values()) for row in added]
    return rows


async def stored_content(database: str, id: str) -> tuple[str, bytes | None, bytes | None]:
    (row,) = await fetch(database, "SELECT policy, request, response FROM inference_content WHERE id = $1", id)
    request, response = (None if part is None else unpack(part) for part in (row["request"], row["response"]))
    return row["policy"], request, response


def work_until_killed(settings: Settings, pipe: Any) -> None:
    """A worker that sends the id of each exchange through the pipe as soon as its caller would have the last byte."""
    spool = Spool(settings.home / "spool", settings)
    chance = random.Random()
    while True:
        made = make_exchange()
        spool_record = spool.open(made.id, "full")
        spool_record.append_request(b"ask")
        for _ in range(chance.randrange(1, 20)):
            spool_record.append_response(b"word " * 20)
        spool_record.close(made)
        pipe.send(made.id)
