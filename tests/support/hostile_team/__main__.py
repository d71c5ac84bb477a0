"""The process: reads the name of an attack, "attack", "rest" or "end" from each line of stdin, and answers each with a line of JSON."""

import asyncio
import contextlib
import json
import os
import sys
from typing import Any

from tests.support.hostile_team.attacks import ATTACKS, Step
from tests.support.hostile_team.connection import HostileTeam
from tests.support.hostile_team.host import HostileHost

_PAUSE_S = 0.01  # between a caller's requests: its own work must not take the machine from the gateway


async def _main(port: int, key: str, redacted_key: str, masked_key: str) -> None:
    team, host = HostileTeam(port, key, redacted_key, masked_key), HostileHost()
    await host.start()
    _answer({"port": host.port})
    step: Step | None = None
    callers = 0
    running: list[asyncio.Task[None]] = []
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := (await lines.readline()).decode().strip():
        match line:
            case "attack":
                assert step is not None
                running = [asyncio.create_task(_repeat(step)) for _ in range(callers)]
                _answer({})
            case "rest":
                for task in running:
                    task.cancel()
                ended = await asyncio.gather(*running, return_exceptions=True)
                faults = [repr(each) for each in ended if not isinstance(each, asyncio.CancelledError)]
                bodies = [body.decode() for body in host.bodies[:1_000]]
                _answer(
                    {"statuses": team.statuses, "received": host.received, "answered": host.answered, "bodies": bodies, "faults": faults}
                )
            case name:
                host.reset()
                step = await ATTACKS[name].prepare(team, host)
                callers = ATTACKS[name].callers
                team.statuses.clear()
                host.received = host.answered = 0
                host.bodies.clear()
                _answer({})


async def _repeat(step: Step) -> None:
    while True:
        with contextlib.suppress(OSError):
            await step()
        await asyncio.sleep(_PAUSE_S)


def _answer(result: Any) -> None:
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


os.nice(10)  # a hostile caller has machines of its own, and does not take the gateway's
asyncio.run(_main(int(sys.argv[1]), *sys.argv[2:]))
