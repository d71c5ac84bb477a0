"""python -m bench.calls: how many function calls a request and a chunk cost in the gateway process. `make check` runs it.

Timings are noisy and calls are not: the same code makes the same number of calls on every machine. A number may rise
only with a reason beside it: a cost that every request pays stays for ever. `--details FOLDER` keeps the profiles, for pstats.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from app.supervisor.machine.home import erase_home
from bench.calls.engine import LockStep
from bench.calls.requests import CountedRequest, agent_chat, agent_messages, chat, function, messages, response
from bench.errors import BenchmarkError
from bench.system import free_port, start_process, wait_until_ready

# Counted with cProfile over 500 requests, one after the other, in rounds: calls of Python and C functions. On a busy machine
# some callbacks are run in a turn of their own, so the round with the fewest calls of a function counts.
# 2026-11-29: 583, 688 and 61 at 8c6fce03; two fewer since a translation is a function of its source and its recipient.
# 2026-11-30: a chunk is sent within data_received(): 61 -> 44; edited by providers.wire: 44 -> 6. A plain request: HTTP read by
# providers.wire and whole answers edited by it, edits of requests without coroutines, and less that is looked up twice: 581 -> 423.
# 2026-11-30: whether the input has items of Responses is one call more (423 -> 424); busy machines count two more by rounding.
# 2026-11-30: a stored Response goes to Redis over a connection of our own instead of redis-py: 1240 -> 850.
MAX_CALLS: Mapping[str, int] = {
    "plain request": 426,
    "request with five limits": 530,
    "chunk of a stream": 6,
    "request with an experiment": 516,  # 495 until the experiment is in force, as a fast machine counted it
    "request of a function": 553,
    "request with 64 endpoints": 491,
    "Messages on a chat engine": 682,
    "Responses on a chat engine": 770,
    "stored Responses on a chat engine": 854,
    "agent's request": 630,
    "agent's Messages": 797,
}
USUAL_REQUESTS: Mapping[str, CountedRequest] = {"plain request": chat("plain"), "request with five limits": chat("limited")}
OTHER_REQUESTS: Mapping[str, CountedRequest] = {
    "request with an experiment": chat("tried"),
    "request of a function": function("answer"),
    "request with 64 endpoints": chat("spread"),
    "Messages on a chat engine": messages("plain"),
    "Responses on a chat engine": response("plain", store=False),
    "stored Responses on a chat engine": response("plain", store=True),
    "agent's request": agent_chat("plain"),
    "agent's Messages": agent_messages("claude"),
}
# Noise only adds calls, so a count that exceeds a number is repeated, on a busy machine with luck under less load.
_MAX_COUNTS = 3
_ROUNDS, _REQUESTS = 10, 50
_OTHER_ROUNDS, _OTHER_REQUESTS = 5, 25
_WARM_UP_REQUESTS, _OTHER_WARM_UP_REQUESTS = 300, 50
_ENDPOINTS = 64
_STREAMS, _SHORT_STREAM, _LONG_STREAM = 2, 10, 60
_READY_TIMEOUT_S, _STOP_TIMEOUT_S, _COUNT_TIMEOUT_S = 180, 90, 30
_FOLDER = Path(__file__).parent
_TWIN = "/providers/wire/twin.py:"
_COMMAND = Path(sys.executable).parent / "narthex"


class CallCounter:
    """Counts the calls of a running gateway process, which profiled_processes/sitecustomize.py prepared for it."""

    def __init__(self, pid: int, path: Path) -> None:
        self._pid = pid
        self._path = path

    def begin(self) -> None:
        self._signal(signal.SIGUSR1, self._path.with_suffix(".begun"))

    def end(self, profile: Path) -> Mapping[str, int]:
        """The calls of each function, by each of its callers, since begin(). `profile`: the file that gets the profile."""
        self._signal(signal.SIGUSR2, self._path)
        profile.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._path.with_suffix(".profile"), profile)
        return json.loads(self._path.read_text())

    def _signal(self, number: signal.Signals, answer: Path) -> None:
        """Raises BenchmarkError if the process does not answer."""
        answer.unlink(missing_ok=True)
        os.kill(self._pid, number)
        deadline = time.monotonic() + _COUNT_TIMEOUT_S
        while not answer.exists():
            if time.monotonic() > deadline:
                raise BenchmarkError("The gateway process does not count its calls.")
            time.sleep(0.01)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.calls", description="Counts function calls per request and per chunk.")
    parser.add_argument("--details", type=Path, metavar="FOLDER", help="keep the profiles here, for `python -m pstats`")
    details, counted = parser.parse_args().details, dict[str, int]()
    try:
        for _ in range(_MAX_COUNTS):
            again = _count(details)
            counted = {name: min(calls, counted.get(name, calls)) for name, calls in again.items()}
            if not _exceeded(counted):
                break
    except BenchmarkError as error:
        print(f"bench.calls: {error}", file=sys.stderr)
        return 1
    for name, calls in counted.items():
        print(f"{name}: {calls} calls (at most {MAX_CALLS[name]})")
    if exceeded := _exceeded(counted):
        print(f"More calls than bench/calls/__main__.py allows: {', '.join(exceeded)}. --details shows which.", file=sys.stderr)
    return 1 if exceeded else 0


def _exceeded(counted: Mapping[str, int]) -> list[str]:
    return [name for name, calls in counted.items() if calls > MAX_CALLS[name]]


def _count(details: Path | None) -> dict[str, int]:
    """Calls per request and per chunk, by name. `details`: where the profiles are kept. Raises BenchmarkError."""
    with tempfile.TemporaryDirectory(prefix="calls-") as folder_name:
        folder = Path(folder_name)
        folder.chmod(0o711)  # under root, the gateway's Postgres runs as another user, which has to pass through
        try:
            return asyncio.run(_count_in(folder, details or folder))
        finally:
            erase_home(folder / "home")


async def _count_in(folder: Path, details: Path) -> dict[str, int]:
    home, port, log, count_file = folder / "home", free_port(), folder / "up.log", folder / "calls"
    environment = {
        **{"NARTHEX_HOME": str(home), "NARTHEX_HOST": "127.0.0.1", "NARTHEX_PORT": str(port), "NARTHEX_WORKERS": "1"},
        **{"DATABASE_URL": "", "REDIS_URL": "", "CALL_COUNT_FILE": str(count_file)},
        "PYTHONPATH": str(_FOLDER / "profiled_processes"),
    }
    lock_step = LockStep()
    async with lock_step.serve_engine() as engine_port:
        with start_process([str(_COMMAND), "up"], log, environment, _STOP_TIMEOUT_S) as pid:
            await asyncio.to_thread(wait_until_ready, "narthex", port, "/health/ready", pid, log, _READY_TIMEOUT_S)
            await asyncio.to_thread(_apply, folder, engine_port, environment)
            counter = CallCounter(_read_number(home / "run" / "gateway-0.pid"), count_file)
            return await _count_cases(lock_step, counter, port, (home / "first-key").read_text().strip(), details)


async def _count_cases(lock_step: LockStep, counter: CallCounter, port: int, key: str, details: Path) -> dict[str, int]:
    async def count(title: str, request: CountedRequest, requests: int, chunks: int = 0, rounds: int = _ROUNDS) -> Mapping[str, int]:
        counted: list[Mapping[str, int]] = []
        for _ in range(rounds):
            counter.begin()
            await lock_step.call(port, key, request, requests, chunks=chunks)
            counted.append(counter.end(details / f"{title.replace(' ', '-')}.profile"))
        return {function: min(calls.get(function, 0) for calls in counted) for function in counted[0]}

    # Metrics and caches that begin with the first requests are none of the usual ones.
    stream = chat("plain").streamed()
    for request in USUAL_REQUESTS.values():
        await lock_step.call(port, key, request, _WARM_UP_REQUESTS)
    for request in OTHER_REQUESTS.values():
        await lock_step.call(port, key, request, _OTHER_WARM_UP_REQUESTS)
    await lock_step.call(port, key, stream, _STREAMS, chunks=_SHORT_STREAM)
    calls = {title: _calls_per(await count(title, request, _REQUESTS), _REQUESTS) for title, request in USUAL_REQUESTS.items()}
    short, long = [await count(f"stream of {chunks}", stream, _STREAMS, chunks) for chunks in (_SHORT_STREAM, _LONG_STREAM)]
    of_chunks = {function: calls - short.get(function, 0) for function, calls in long.items()}
    calls["chunk of a stream"] = _calls_per(of_chunks, _STREAMS * (_LONG_STREAM - _SHORT_STREAM))
    for title, request in OTHER_REQUESTS.items():
        calls[title] = _calls_per(await count(title, request, _OTHER_REQUESTS, rounds=_OTHER_ROUNDS), _OTHER_REQUESTS)
    return calls


def _read_number(path: Path) -> int:
    return int(path.read_text())


def _calls_per(calls: Mapping[str, int], count: int) -> int:
    """The calls of each function by each caller are rounded, which leaves out what the process does by itself now and then.

    A function of providers.wire is one call, whether it is the compiled one or its twin in Python.
    """
    return sum(round(each / count) for function, each in calls.items() if _TWIN not in function.partition(" <- ")[2])


def _apply(folder: Path, engine_port: int, environment: Mapping[str, str]) -> None:
    configuration = folder / "configuration.toml"
    endpoints = ", ".join(f'"http://127.0.0.1:{engine_port}/{number}"' for number in range(_ENDPOINTS))
    toml = (_FOLDER / "configuration.toml").read_text().replace("@ENGINE_PORT@", str(engine_port)).replace("@ENDPOINTS@", endpoints)
    configuration.write_text(toml)
    command = [str(_COMMAND), "apply", str(configuration), "--yes"]
    completed = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=60)
    if completed.returncode:
        raise BenchmarkError(f"narthex apply failed:\n{completed.stdout}{completed.stderr}")


if __name__ == "__main__":
    sys.exit(main())
