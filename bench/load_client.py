"""Runs the load client and reads its result. c/load.c says what it counts, and how."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench.errors import BenchmarkError

CHAT_BODY = (
    b'{"model":"mock","messages":[{"role":"system","content":"You answer in one sentence, in plain words."},'
    b'{"role":"user","content":"What does a narthex have to do with a church, and why is it at the west end?"}],'
    b'"temperature":0.7,"max_tokens":128}'
)
STREAM_BODY = (
    b'{"model":"mock","messages":[{"role":"system","content":"You answer in one sentence, in plain words."},'
    b'{"role":"user","content":"Speak evenly: chunks=%d interval_us=%d"}],'
    b'"temperature":0.7,"max_tokens":4096,"stream":true,"stream_options":{"include_usage":true}}'
)
EXPECTED_TEXT = "mock engine speaking"


class Percentiles(msgspec.Struct, frozen=True):
    """A distribution in microseconds; `count` is the number of samples."""

    count: int
    p50: float
    p90: float
    p99: float
    max: float


class LoadResult(msgspec.Struct, frozen=True):
    """The result of one run. `answered` counts complete, correct responses; everything else is in one of the failures."""

    seconds: float
    answered: int
    failed_connect: int
    failed_reset: int
    failed_status: int
    failed_short: int
    failed_timeout: int
    latency_us: Percentiles
    chunk_delay_us: Percentiles
    first_failure: str

    @property
    def failed(self) -> int:
        return self.failed_connect + self.failed_reset + self.failed_status + self.failed_short + self.failed_timeout


class LoadClient:
    """Sends load to systems. `folder` holds the request bodies, which the program reads from files."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder

    def run_closed_loop(self, port: int, headers: Sequence[str], *, connections: int, seconds: float) -> LoadResult:
        return self._run("closed", port, headers, CHAT_BODY, seconds, ["--connections", str(connections), "--expect", EXPECTED_TEXT])

    def run_open_loop(self, port: int, headers: Sequence[str], *, rate: float, seconds: float) -> LoadResult:
        return self._run("open", port, headers, CHAT_BODY, seconds, ["--rate", str(rate), "--expect", EXPECTED_TEXT, "--grace", "5"])

    def run_streams(
        self,
        port: int,
        headers: Sequence[str],
        *,
        count: int,
        chunks: int,
        interval_s: float,
        ramp_s: float,
        on_all_open: Callable[[int], None] = lambda _open: None,
    ) -> LoadResult:
        """Calls `on_all_open` once, with the number of open streams, when every stream has been opened or refused."""
        hold_s = chunks * interval_s
        options = ["--connections", str(count), "--chunks", str(chunks), "--ramp", str(ramp_s), "--hold", str(hold_s), "--grace", "5"]
        return self._run("streams", port, headers, STREAM_BODY % (chunks, int(interval_s * 1e6)), ramp_s + hold_s, options, on_all_open)

    def _run(
        self,
        mode: str,
        port: int,
        headers: Sequence[str],
        body: bytes,
        seconds: float,
        options: Sequence[str],
        on_all_open: Callable[[int], None] = lambda _open: None,
    ) -> LoadResult:
        body_file = self._folder / f"{mode}.json"
        body_file.write_bytes(body)
        command = [str(self._program), mode, "--port", str(port), "--body", str(body_file), "--seconds", str(seconds), *options]
        for header in headers:
            command += ["--header", header]
        last_line = ""
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            for line in client.stdout:
                if line.startswith("held "):
                    on_all_open(int(line.split()[1]))
                last_line = line
        if client.returncode:
            raise BenchmarkError(f"The load client ended with status {client.returncode}.")
        return msgspec.json.decode(last_line, type=LoadResult)
