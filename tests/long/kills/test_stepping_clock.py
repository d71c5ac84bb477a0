"""The clock of a gateway's machine steps, by minutes or by a year, while those of Postgres and Redis do not."""

import asyncio
import shutil
import subprocess
import sys
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
BODY = {"model": "sandbox", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 1}
SOURCE = Path(services.__file__).with_name("stepping_clock.c")
COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler, with which the gateway's processes get another clock")
# In seconds, one after the other: so that each is a step forwards or back from the last.
STEPS = (0, 60, -60, 3_600, -3_600, 90_000, -90_000, 400 * 86_400, -400 * 86_400, 0)


@dataclass
class SteppingService:
    service: Service
    database_url: str
    offset_file: Path

    def step(self, seconds: int) -> None:
        """The gateway's clock is so far ahead of the others from now on."""
        with self.offset_file.open("r+b", buffering=0) as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    async def count(self, ids: list[str]) -> int:
        return (await fetch(self.database_url, "SELECT count(*) AS n FROM inferences WHERE id = ANY($1::uuid[])", ids))[0]["n"]


@pytest.fixture
async def stepping() -> AsyncGenerator[SteppingService]:
    folder = make_folder()
    offset_file = folder / "offset"
    offset_file.write_bytes(bytes(8))
    offset_file.chmod(0o644)
    library = folder / "stepping_clock.so"
    await asyncio.to_thread(subprocess.run, [str(COMPILER), "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
    server, valkey = Postgres(folder), Valkey(folder)
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("DATABASE_URL", server.url)
            environment.setenv("REDIS_URL", valkey.url)
            environment.setenv("LD_PRELOAD", str(library))
            environment.setenv("STEPPING_CLOCK", str(offset_file))
            service = await asyncio.to_thread(services.start, workers=2, limits_lease_s=1)
        yield SteppingService(service, server.url, offset_file)
        await asyncio.to_thread(services.stop, service)
    finally:
        server.stop()
        valkey.client.close()
        valkey.stop()
        erase_home(folder)


async def test_steps_lose_no_record_and_admit_nothing_more(stepping: SteppingService) -> None:
    service = stepping.service
    for number, seconds in enumerate(STEPS):
        stepping.step(seconds)
        async with service.admin_client() as admin, service.keyless_client() as client:
            made = await admin.post("/admin/v1/keys", json={"team": f"team {number}"})
            assert made.status_code == 201, made.text
            limit: dict[str, Any] = {"scope": {"key": made.json()["prefix"]}, "resource": "requests", "amount": 20, "per": "hour"}
            created = await admin.put(f"/admin/v1/limits/step-{number}", json=limit)
            assert created.status_code in (200, 201), created.text
            headers = {"authorization": f"Bearer {made.json()['key']}"}

            async def request(client: httpx2.AsyncClient = client, headers: dict[str, str] = headers) -> httpx2.Response:
                return await client.post(CHAT, json=BODY, headers=headers)

            responses = await asyncio.gather(*(request() for _ in range(40)))
            served = [each.json()["id"] for each in responses if each.status_code == 200]
            refused = [each for each in responses if each.status_code == 429]
            assert len(served) == 20 and len(refused) == 20, (seconds, [each.status_code for each in responses])
            waits_s = [int(each.headers["retry-after"]) for each in refused]
            assert 3_500 < min(waits_s) <= max(waits_s) <= 3_800, (seconds, waits_s)
            await wait_until_stored(stepping, served)
            assert (await admin.delete(f"/admin/v1/keys/{made.json()['prefix']}")).is_success
            assert (await request()).status_code == 401
    logs = "".join(path.read_text(errors="replace") for path in service.home.rglob("*.log"))
    assert "Traceback" not in logs


async def wait_until_stored(stepping: SteppingService, ids: list[str]) -> None:
    async def are_stored() -> bool:
        return await stepping.count(ids) == len(ids)

    await wait_until(are_stored, 60)
