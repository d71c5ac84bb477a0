"""The disk of the spool fills up, for real, under load: what was answered is recorded, and nothing else is answered."""

import asyncio
import errno
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.supervisor.machine.home import erase_home
from tests.integration.attempts.test_outages import make_folder
from tests.support.processes import service as services
from tests.support.processes.postgres import Postgres
from tests.support.processes.service import Service
from tests.support.processes.valkey import Valkey
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch

CHAT = "/v1/chat/completions"
DISK_BYTES = 128 * 1024 * 1024
CALLERS = 8
# Mounts of its own, for which a user other than root becomes root in a namespace of its own.
UNSHARE = ("unshare", "-m" if os.geteuid() == 0 else "-Urm")
MOUNTING = 'mkdir -p "$0" && mount -t tmpfs -o size=$1 none "$0" && shift && exec "$@"'


def can_mount() -> bool:
    trial = [*UNSHARE, "sh", "-c", "mount -t tmpfs none /mnt"]
    return shutil.which("unshare") is not None and subprocess.run(trial, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not can_mount(), reason="a process cannot have mounts of its own here (unshare -m)")


@dataclass
class ServiceWithSmallDisk:
    service: Service
    database_url: str
    disk: Path

    def fill(self) -> None:
        """Fills the disk until not one byte more can be written."""
        fd = os.open(self.disk / "filler", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        os.write(fd, bytes(size))
                except OSError as error:
                    assert error.errno == errno.ENOSPC
        finally:
            os.close(fd)

    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in self.service.home.rglob("*.log"))

    def clear(self) -> None:
        (self.disk / "filler").unlink()


@pytest.fixture
async def small(request: pytest.FixtureRequest) -> AsyncGenerator[ServiceWithSmallDisk]:
    folder = make_folder()
    server, valkey = Postgres(folder), Valkey(folder)
    home = make_folder()
    spool = home / "spool"
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("DATABASE_URL", server.url)
            environment.setenv("REDIS_URL", valkey.url)
            prefix = (*UNSHARE, "sh", "-c", MOUNTING, str(spool), str(DISK_BYTES))
            service = await asyncio.to_thread(services.start, home=home, prefix=prefix, workers=2, **request.param)
        yield ServiceWithSmallDisk(service, server.url, Path(f"/proc/{service.pid('gateway-0')}/root{spool}"))
        await asyncio.to_thread(services.stop, service)
    finally:
        server.stop()
        valkey.client.close()
        valkey.stop()
        erase_home(folder)


def body(number: int, *, stream: bool) -> dict[str, Any]:
    return {"model": "sandbox", "messages": [{"role": "user", "content": f"{number} " * 5_000}], "max_tokens": 20, "stream": stream}


async def call(client: httpx2.AsyncClient, number: int) -> tuple[int, str | None]:
    """The status, and the inference's id if the caller has the last byte of a response: not that of an error."""
    stream = bool(number % 2)
    async with client.stream("POST", CHAT, json=body(number, stream=stream)) as response:
        text = (await response.aread()).decode()
    assert response.status_code == 200 or '"type":"service_unavailable"' in text, text
    is_whole = response.status_code == 200 and ("data: [DONE]" in text if stream else "choices" in text)
    return response.status_code, response.headers["x-narthex-inference-id"] if is_whole else None


@pytest.mark.parametrize("small", [{"spool_when_full": "refuse", "spool_segment_bytes": 1 << 20}], ids=["refuse"], indirect=True)
async def test_what_was_answered_before_and_after_a_disk_was_full_is_recorded(small: ServiceWithSmallDisk) -> None:
    answered: list[str] = []
    statuses: set[int] = set()
    ends = asyncio.Event()

    async def keep_calling(client: httpx2.AsyncClient, caller: int) -> None:
        number = caller
        while not ends.is_set():
            status, id = await call(client, number)
            statuses.add(status)
            answered.extend([id] if id is not None else [])
            number += CALLERS

    async with small.service.client() as client:
        calling = [asyncio.create_task(keep_calling(client, caller)) for caller in range(CALLERS)]
        for _ in range(3):
            before = len(answered)
            await wait_until(lambda before=before: len(answered) > before + 50)
            await asyncio.to_thread(small.fill)
            statuses.clear()
            while 503 not in statuses:  # The writer makes room with everything that it stores.
                await asyncio.to_thread(small.fill)
            assert (await client.get("/health/live")).status_code == 200
            await asyncio.to_thread(small.clear)
            before = len(answered)
            await wait_until(lambda before=before: len(answered) > before + 50)
        ends.set()
        await asyncio.gather(*calling)
    assert statuses <= {200, 503}

    async def are_recorded() -> bool:
        rows = await fetch(small.database_url, "SELECT count(*) AS n FROM inferences WHERE id = ANY($1::uuid[])", answered)
        return rows[0]["n"] == len(set(answered)) == len(answered)

    await wait_until(are_recorded, 60)
    assert "Traceback" not in small.log()
