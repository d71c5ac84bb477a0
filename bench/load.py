"""The load client, run and read. What it counts and how is told in c/load.c."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench.trouble import Trouble

WHOLE = (
    b'{"model":"mock","messages":[{"role":"system","content":"You answer in one sentence, in plain words."},'
    b'{"role":"user","content":"What does a narthex have to do with a church, and why is it at the west end?"}],'
    b'"temperature":0.7,"max_tokens":128}'
)
STREAMED = (
    b'{"model":"mock","messages":[{"role":"system","content":"You answer in one sentence, in plain words."},'
    b'{"role":"user","content":"Speak evenly: chunks=%d interval_us=%d"}],'
    b'"temperature":0.7,"max_tokens":4096,"stream":true,"stream_options":{"include_usage":true}}'
)
EXPECTED = "mock engine speaking"


class Spread(msgspec.Struct, frozen=True):
    """Microseconds."""

    count: int
    p50: float
    p90: float
    p99: float
    max: float


class Outcome(msgspec.Struct, frozen=True):
    """What one run of the load client saw. `answered` are whole, right answers; everything else is in one of the failures."""

    seconds: float
    answered: int
    failed_connect: int
    failed_reset: int
    failed_status: int
    failed_short: int
    failed_timeout: int
    latency_us: Spread
    chunk_delay_us: Spread
    first_failure: str

    @property
    def failed(self) -> int:
        return self.failed_connect + self.failed_reset + self.failed_status + self.failed_short + self.failed_timeout


class Load:
    """Asks one system. `folder` keeps the request bodies, which the client reads from files."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder

    def closed(self, port: int, headers: Sequence[str], *, connections: int, seconds: float) -> Outcome:
        return self._run("closed", port, headers, WHOLE, seconds, ["--connections", str(connections), "--expect", EXPECTED])

    def paced(self, port: int, headers: Sequence[str], *, rate: float, seconds: float) -> Outcome:
        return self._run("open", port, headers, WHOLE, seconds, ["--rate", str(rate), "--expect", EXPECTED, "--grace", "5"])

    def streams(
        self,
        port: int,
        headers: Sequence[str],
        *,
        count: int,
        chunks: int,
        interval_s: float,
        ramp_s: float,
        held: Callable[[int], None] = lambda _open: None,
    ) -> Outcome:
        """`held` is called once, with how many streams are open, when all have been opened or refused."""
        hold_s = chunks * interval_s
        shape = ["--connections", str(count), "--chunks", str(chunks), "--ramp", str(ramp_s), "--hold", str(hold_s), "--grace", "5"]
        return self._run("streams", port, headers, STREAMED % (chunks, int(interval_s * 1e6)), ramp_s + hold_s, shape, held)

    def _run(
        self,
        mode: str,
        port: int,
        headers: Sequence[str],
        body: bytes,
        seconds: float,
        shape: Sequence[str],
        held: Callable[[int], None] = lambda _open: None,
    ) -> Outcome:
        body_file = self._folder / f"{mode}.json"
        body_file.write_bytes(body)
        command = [str(self._program), mode, "--port", str(port), "--body", str(body_file), "--seconds", str(seconds), *shape]
        for header in headers:
            command += ["--header", header]
        last = ""
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            for line in client.stdout:
                if line.startswith("held "):
                    held(int(line.split()[1]))
                last = line
        if client.returncode:
            raise Trouble(f"The load client ended with status {client.returncode}.")
        return msgspec.json.decode(last, type=Outcome)
