"""An upgrade under load: two machines of an earlier version become two of this one, and no caller notices.

As docs/operations.md says: migrate, then machine by machine, each out of the load balancer while it restarts.
"""

import asyncio
import base64
import io
import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from app.store.postgres.database import connect
from tests.support.processes.fast_folder import fast_folder
from tests.support.processes.postgres import Postgres, postgres
from tests.support.processes.service import PROCESS_TIMEOUT_S, free_port, is_ready
from tests.support.processes.valkey import Valkey
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, stream_script

__all__ = ["postgres"]

ROOT = Path(__file__).parents[3]
EARLIER = "c8ab861dfbbdd747bb380fdef2590d0e575da18f"  # the last commit of the version before
CALLERS = 6
REQUESTS_BETWEEN_STEPS = 300
QUIET_LOAD = 3.0  # on average over 15 minutes, the load of this test included
LIMITS = """
[[limits]]
name = "requests of a key"
scope = { key = "each" }
resource = "requests"
amount = 1_000_000
per = "hour"
"""


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the earlier version. Its dependencies are those of this one, or fewer."""
    archived = subprocess.run(["git", "archive", EARLIER, "app", "providers", "migrations"], cwd=ROOT, capture_output=True, check=False)
    if archived.returncode != 0:
        pytest.skip("This checkout has no history: `git fetch --unshallow` gets it.")
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(archived.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def valkey() -> Generator[Valkey]:
    home = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
    home.chmod(0o711)
    server = Valkey(home)
    yield server
    server.client.close()
    server.stop()
    shutil.rmtree(home, ignore_errors=True)


@dataclass
class Machine:
    """Two processes that a service manager would run, of the version whose source is `source`."""

    source: Path
    environment: Mapping[str, str]
    port: int = field(default_factory=free_port)
    home: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder())))
    processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list["subprocess.Popen[bytes]"])
    in_balancer: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def variables(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("NARTHEX_")}
        own = {"NARTHEX_HOME": str(self.home), "NARTHEX_PORT": str(self.port), "NARTHEX_WORKERS": "2", "PYTHONPATH": str(self.source)}
        return {**inherited, **self.environment, **own}

    def command(self, *arguments: str, stdin: str = "") -> str:
        command = [sys.executable, "-P", "-m", "app.cli", *arguments]
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.home,
            env=self.variables(),
            timeout=PROCESS_TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    async def start(self) -> None:
        self.processes += [self._start("serve"), self._start("writer")]

        async def is_serving() -> bool:
            assert self.processes[0].poll() is None, (self.home / "serve.log").read_text()
            return await asyncio.to_thread(is_ready, self.url)  # a gateway that starts lets it wait, and callers run here, too

        await wait_until(is_serving, PROCESS_TIMEOUT_S, interval_s=0.2)
        self.in_balancer = True

    def _start(self, command: str) -> "subprocess.Popen[bytes]":
        with (self.home / f"{command}.log").open("ab") as log:
            started = [sys.executable, "-P", "-m", "app.cli", command]
            return subprocess.Popen(started, cwd=self.home, env=self.variables(), stdout=log, stderr=log)

    async def stop(self) -> None:
        """The gateway first, so that its writer stores what it recorded last."""
        self.in_balancer = False
        for process in self.processes:
            process.terminate()
            await asyncio.to_thread(process.wait, PROCESS_TIMEOUT_S)
        self.processes.clear()


class Load:
    """Callers who send one request after the other, whole and streamed, to the machines in the balancer."""

    def __init__(self, machines: list[Machine], key: str) -> None:
        self.machines = machines
        self.ids: list[str] = []
        self.failures: list[str] = []
        self.durations_s: list[float] = []
        self._headers = {"authorization": f"Bearer {key}"}
        self._ended = asyncio.Event()
        self._callers = [asyncio.create_task(self._call(random.Random(number))) for number in range(CALLERS)]

    async def end(self) -> None:
        self._ended.set()
        await asyncio.gather(*self._callers)

    async def next_requests(self, count: int = REQUESTS_BETWEEN_STEPS) -> list[float]:
        """Waits for them. How long they took, in seconds."""
        begin = len(self.durations_s)
        await wait_until(lambda: len(self.durations_s) >= begin + count or bool(self.failures), PROCESS_TIMEOUT_S)
        return self.durations_s[begin:]

    async def _call(self, choice: random.Random) -> None:
        async with httpx2.AsyncClient(headers=self._headers, timeout=120) as client:
            while not self._ended.is_set():
                url = choice.choice([machine.url for machine in self.machines if machine.in_balancer])
                body = {"model": "m", "stream": choice.random() < 0.5, "messages": [{"role": "user", "content": "Hello!"}]}
                began_s = time.monotonic()
                try:
                    answer = await client.post(f"{url}/v1/chat/completions", json=body)
                except httpx2.TransportError as fault:
                    self.failures.append(repr(fault))
                    continue
                self.durations_s.append(time.monotonic() - began_s)
                is_complete = answer.status_code == 200 and ("[DONE]" in answer.text if body["stream"] else "choices" in answer.text)
                if is_complete:
                    self.ids.append(answer.headers["x-narthex-inference-id"])
                else:
                    self.failures.append(answer.text)


def slowest(durations_s: list[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(durations_s, n=100)[98]


async def test_no_request_fails_while_two_machines_are_upgraded(earlier: Path, postgres: Postgres, valkey: Valkey) -> None:
    await postgres.execute("CREATE DATABASE upgraded")
    url = postgres.database_url("upgraded")
    environment = {"DATABASE_URL": url, "REDIS_URL": valkey.url, "NARTHEX_SECRET_KEY": base64.b64encode(os.urandom(32)).decode()}
    machines = [Machine(earlier, environment), Machine(earlier, environment)]
    engine = ScriptedEngine()
    await engine.start()

    async def script(request: ReceivedRequest) -> None:
        await (stream_script(*HELLO)(request) if request.body.get("stream") else request.respond_completion("An answer. " * 20))

    engine.script = script
    try:
        await asyncio.to_thread(machines[0].command, "migrate")
        configuration = f"""
            [providers.engine]
            adapter = "openai"
            base_url = "http://127.0.0.1:{engine.port}"
            [models.m]
            targets = [{{ provider = "engine", model = "m" }}]
        """
        await asyncio.to_thread(machines[0].command, "apply", "-", "--yes", stdin=configuration + LIMITS)
        key = await asyncio.to_thread(machines[0].command, "keys", "create", "--team", "upgrade", "--quiet")
        for machine in machines:
            await machine.start()
        load = Load(machines, key)
        quiet = await load.next_requests(3 * REQUESTS_BETWEEN_STEPS)
        begin = len(load.durations_s)
        migrating = Machine(ROOT, environment, home=machines[0].home, port=machines[0].port)
        await asyncio.to_thread(migrating.command, "migrate")
        await load.next_requests()
        for machine in machines:
            await machine.stop()
            machine.source = ROOT
            await machine.start()
            await load.next_requests()
        await load.end()
        upgrading = load.durations_s[begin:]
        assert load.failures == []
        for machine in machines:
            await machine.stop()
        connection = await connect(url)
        rows = await connection.fetch("SELECT id::text, count(*) AS count FROM inferences GROUP BY id")
        await connection.close()
        assert {row["id"]: row["count"] for row in rows} == dict.fromkeys(load.ids, 1)
        if os.getloadavg()[2] < QUIET_LOAD:  # else the slowest requests are those that other work held up
            assert slowest(upgrading) <= 2 * slowest(quiet), (slowest(upgrading), slowest(quiet), len(upgrading))
    finally:
        await engine.stop()
        for machine in machines:
            for process in machine.processes:
                process.kill()
            shutil.rmtree(machine.home, ignore_errors=True)
