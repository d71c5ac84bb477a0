"""Two teams at one gateway: one attacks in a process of its own, and the other's latency, errors and charges are measured."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.domain import uuid7
from tests.support.hostile_team.connection import chat, read_response
from tests.support.processes import service as services
from tests.support.processes.service import PROCESS_TIMEOUT_S, Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch
from tests.support.scripted_engine import ScriptedEngine

CHAT = "/v1/chat/completions"
MB = 1_000_000
# What the requests of one team may hold, in the one worker.
TEAM_BODY_BYTES = 128 * MB

_INTERVAL_S = 0.01
# One of so many requests of the quiet team is large, and one of them is no large part of its processor time.
_LARGE_EVERY = 25
_LARGE_MESSAGES = [{"role": ("user", "assistant")[at % 2], "content": "a" * 700} for at in range(401)]
_SLICE_S = 2.0
_MAX_ROUNDS = 6
_FLOOR_S = 0.020
# A string of megabytes is decoded, and written, in one call into C, during which no other thread runs (docs/decisions/012).
_LONG_STRINGS_FLOOR_S = {
    **dict.fromkeys(("echoed_field_name", "large_image", "aborted_while_waiting"), 0.040),
    **dict.fromkeys(("histories", "large_responses", "large_responses_redacted"), 0.060),
    **dict.fromkeys(("long_text", "redacted_text"), 0.080),
}


@dataclass(frozen=True)
class Slice:
    """The quiet team's view of some seconds."""

    p99_s: float  # from when each request was due, so that a stall delays all of them
    large_s: float  # the longest of the large requests, which are few
    # How many times as long the gateway's threads took as on a machine with nothing else to do, by the time that they
    # were ready to run and another process ran instead.
    slowdown: float
    statuses: dict[int, int]


@dataclass
class AttackReport:
    """The effects of an attack.

    `rounds` has what the quiet team saw without and with it, in turn; the rest is the hostile team's view of the last round.
    """

    floor_s: float = _FLOOR_S
    rounds: list[tuple[Slice, Slice]] = field(default_factory=lambda: [])
    statuses: dict[str, int] = field(default_factory=lambda: {})
    received: int = 0
    answered: int = 0
    bodies: list[Any] = field(default_factory=lambda: [])
    faults: list[str] = field(default_factory=lambda: [])
    peak_bytes: int = 0

    @property
    def is_unharmed(self) -> bool:
        """True if some round left the quiet team unharmed.

        In such a round its p99 stayed below twice its quiet value, or 20 ms (`floor_s`) times the slowdown, and its large requests stayed
        below three times theirs, or eight times that: each does four pieces of work, and waits for a call into C in each.

        It need not be every round: the machine's other work only ever adds, and what an attack causes comes back in every round.
        """
        return any(
            attacked.p99_s <= max(2 * quiet.p99_s, attacked.slowdown * self.floor_s)
            and attacked.large_s <= max(3 * quiet.large_s, attacked.slowdown * 8 * self.floor_s)
            for quiet, attacked in self.rounds
        )

    def __str__(self) -> str:
        times = ", ".join(
            f"{quiet.p99_s * 1e3:.0f} -> {attacked.p99_s * 1e3:.0f} ms,"
            f" of large ones {quiet.large_s * 1e3:.0f} -> {attacked.large_s * 1e3:.0f} ms"
            f" (machine {attacked.slowdown:.1f} times as slow)"
            for quiet, attacked in self.rounds
        )
        return f"p99 {times}; {self.statuses}; peak {self.peak_bytes / MB:.0f} MB"


class TwoTeams:
    """A quiet and a hostile team at one service, which has one worker, so that both share everything."""

    def __init__(self, service: Service, engine: ScriptedEngine, attacker: asyncio.subprocess.Process, quiet_key: str) -> None:
        self.service = service
        self.engine = engine
        self.sent = 0  # how many requests of the quiet team were answered
        self.engine_answer = "Hello."  # what the quiet team's engine says
        self.first_bytes = self._memory_bytes("VmRSS")  # the gateway's memory before any attack
        engine.script = lambda request: request.respond_completion(self.engine_answer)
        self._attacker = attacker
        self._quiet_key = quiet_key
        self._port = int(service.url.rsplit(":", 1)[1])
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def attack(self, name: str, **fields: Callable[[int], Any]) -> AttackReport:
        """Rounds of a quiet and an attacked slice, until one did the quiet team no harm. `fields` make more of its requests' fields."""
        await self._tell(name)
        await self.close()  # connections that were idle for long may be closed at any moment
        report = AttackReport(_LONG_STRINGS_FLOOR_S.get(name, _FLOOR_S))
        self._reset_peak_memory()
        while len(report.rounds) < _MAX_ROUNDS and not report.is_unharmed:
            quiet = await self._measure(fields)
            await self._tell("attack")
            attacked = await self._measure(fields)
            outcome = await self._tell("rest")
            report.rounds.append((quiet, attacked))
            report.statuses, report.received, report.answered = outcome["statuses"], outcome["received"], outcome["answered"]
            report.bodies, report.faults = [json.loads(body) for body in outcome["bodies"]], outcome["faults"]
        report.peak_bytes = self._memory_bytes("VmHWM")
        return report

    async def measure(self) -> Slice:
        """Returns what the quiet team sees while something else is going on."""
        return await self._measure({})

    def new_id(self) -> str:
        """Mints an id that is earlier than those of all requests that follow."""
        return uuid7.mint()

    async def records(self, side: str, since_id: str) -> list[dict[str, Any]]:
        """All inferences of the quiet or of the hostile teams, once nothing is in flight and everything is stored."""
        query = """
            SELECT i.*, i.id::text AS id FROM inferences i JOIN teams t ON t.id = i.team_id
            WHERE starts_with(t.name, $1) AND i.id::text > $2 ORDER BY i.id
        """
        rows: list[Any] = []

        async def is_stored() -> bool:
            nonlocal rows
            async with self.service.client() as client:
                metrics = (await client.get("/metrics")).text
            if "narthex_requests_in_flight 0.0" not in metrics or "narthex_spool_oldest_record_age_seconds 0.0" not in metrics:
                return False
            found = await fetch(database_url(self.service), query, side, since_id)
            rows, settled = found, len(found) == len(rows)
            return settled

        await wait_until(is_stored, interval_s=1.5)  # metrics and the writer are each behind by up to a second
        return [dict(row) for row in rows]

    async def _measure(self, fields: dict[str, Callable[[int], Any]]) -> Slice:
        """Sends requests at a steady pace, whether those before are answered or not."""
        latencies: list[float] = []
        large: list[float] = []
        statuses: dict[int, int] = {}
        requests: list[asyncio.Task[None]] = []

        async def request(due: float, number: int) -> None:
            is_large = not number % _LARGE_EVERY
            made = {name: make(number) for name, make in fields.items()} | ({"messages": _LARGE_MESSAGES} if is_large else {})
            status = await self._send(chat("quiet", **{name: value for name, value in made.items() if value is not None}))
            (large if is_large else latencies).append(time.perf_counter() - due)
            statuses[status] = statuses.get(status, 0) + 1

        ran_ns, waited_ns = self._processor_ns()
        began = time.perf_counter()
        count = int(_SLICE_S / _INTERVAL_S)
        for number in range(count):
            due = began + number * _INTERVAL_S
            await asyncio.sleep(max(0, due - time.perf_counter()))
            requests.append(asyncio.create_task(request(due, self.sent + number)))
        async with asyncio.timeout(PROCESS_TIMEOUT_S):
            await asyncio.gather(*requests)
        self.sent += count
        ran_ns, waited_ns = (after - before for before, after in zip((ran_ns, waited_ns), self._processor_ns(), strict=True))
        return Slice(sorted(latencies)[int(0.99 * len(latencies)) - 1], max(large), 1 + waited_ns / ran_ns, statuses)

    def _reset_peak_memory(self) -> None:
        Path(f"/proc/{self.service.pid('gateway-0')}/clear_refs").write_text("5")

    def _memory_bytes(self, field: str) -> int:
        status = Path(f"/proc/{self.service.pid('gateway-0')}/status").read_text()
        return int(status.partition(f"{field}:")[2].split()[0]) * 1024

    def _processor_ns(self) -> tuple[int, int]:
        """How long the gateway's threads have run, and how long they have waited for a processor."""
        threads = Path(f"/proc/{self.service.pid('gateway-0')}/task").iterdir()
        times = [(thread / "schedstat").read_text().split() for thread in threads]
        return sum(int(ran) for ran, _, _ in times), sum(int(waited) for _, waited, _ in times)

    async def _send(self, body: bytes) -> int:
        """Sends one request and returns its status, or 0 if the connection was closed."""
        connection = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = connection
        head = f"POST {CHAT} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {self._quiet_key}\r\ncontent-length: {len(body)}\r\n\r\n"
        try:
            writer.write(head.encode() + body)
            status, _ = await read_response(reader)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
            return 0
        self._idle.append(connection)
        return status

    async def _tell(self, command: str) -> Any:
        assert self._attacker.stdin is not None
        self._attacker.stdin.write(command.encode() + b"\n")
        return await read_answer(self._attacker)

    async def close(self) -> None:
        while self._idle:
            _, writer = self._idle.pop()
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def read_answer(attacker: asyncio.subprocess.Process) -> Any:
    assert attacker.stdout is not None
    async with asyncio.timeout(PROCESS_TIMEOUT_S):
        line = await attacker.stdout.readline()
    assert line, "the hostile team's process has ended"
    return json.loads(line)


@contextlib.asynccontextmanager
async def two_teams() -> AsyncGenerator[TwoTeams]:
    """A gateway with one worker, and the quiet and the hostile team, each with models of its own."""
    service = await asyncio.to_thread(
        services.start,
        workers=1,
        bodies_max_bytes_key=TEAM_BODY_BYTES,
        bodies_max_bytes_team=TEAM_BODY_BYTES,
        head_timeout_s=3,
        redis_timeout_s=2,
        breaker_failures=1_000_000,
    )
    engine = ScriptedEngine()
    await engine.start()
    quiet_key, *hostile_keys = (
        _create_key(service, team, content)
        for team, content in (
            *(("quiet", "full"), ("hostile", "full")),
            *(("hostile, redacted", "redacted"), ("hostile, masked", "masked")),
        )
    )
    attacker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.hostile_team",
        service.url.rsplit(":", 1)[1],
        *hostile_keys,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=64 * MB,
    )
    try:
        host = (await read_answer(attacker))["port"]
        await asyncio.to_thread(service.apply, _configuration(engine.port, host))
        teams = TwoTeams(service, engine, attacker, quiet_key)
        yield teams
        await teams.close()
    finally:
        assert attacker.stdin is not None
        attacker.stdin.close()
        if attacker.returncode is None:
            attacker.kill()
        await attacker.wait()
        await engine.stop()
        await asyncio.to_thread(services.stop, service)


def _create_key(service: Service, team: str, content: str) -> str:
    created = service.run("keys", "create", "--team", team, "--content", content, "--quiet")
    assert created.returncode == 0, created.stderr
    return created.stdout.strip()


def _configuration(quiet_port: int, hostile_port: int) -> str:
    hostile = f"http://127.0.0.1:{hostile_port}"
    return f"""
        [providers]
        quiet = {{ adapter = "openai", base_url = "http://127.0.0.1:{quiet_port}" }}
        hostile = {{ adapter = "openai", base_url = "{hostile}" }}
        hostile-engine = {{ adapter = "vllm", base_url = "{hostile}", options = {{ version = "0.32.0" }} }}
        hostile-claude = {{ adapter = "anthropic", base_url = "{hostile}" }}
        [models]
        quiet = {{ targets = [{{ provider = "quiet", model = "m" }}] }}
        hostile = {{ targets = [{{ provider = "hostile", model = "m" }}] }}
        hostile-limited = {{ targets = [{{ provider = "hostile", model = "m" }}] }}
        hostile-engine = {{ targets = [{{ provider = "hostile-engine", model = "m" }}] }}
        hostile-claude = {{ targets = [{{ provider = "hostile-claude", model = "m" }}] }}
        [models.hostile-pool]
        targets = [{{ provider = "hostile", model = "m", endpoints = ["{hostile}", "http://localhost:{hostile_port}"] }}]
        hedge = {{ quantile = 0.5, budget = 1.0 }}
        [functions.hostile-function]
        schemas.system.type = "object"
        schemas.system.properties = {{ items = {{ type = "array", items = {{ type = "string" }} }}, times = {{ type = "integer" }} }}
        variants.v = {{ model = "hostile", system_template = "{{% if times is defined %}}{{{{ items * times }}}}{{% endif %}}" }}
        [teams."hostile, masked"]
        content = "masked"
        mask.patterns = {{ own = "q[^z]*z|q" }}
        [[limits]]
        name = "tokens of a team"
        scope = {{ team = "each" }}
        resource = "tokens"
        amount = 100_000_000_000
        per = "day"
        [[limits]]
        name = "requests of a team"
        scope = {{ team = "each" }}
        resource = "requests"
        amount = 10_000_000
        per = "minute"
        [[limits]]
        name = "one request"
        scope = {{ model = "hostile-limited" }}
        resource = "requests"
        amount = 1
        per = "day"
        [[prices]]
        provider = "quiet"
        model = "m"
        input = 1
        output = 10
        [[prices]]
        provider = "hostile"
        model = "m"
        input = 1
        output = 10
    """
