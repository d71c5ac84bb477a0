"""A real `vllm serve` for as long as a `with` block lasts."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import httpx

from tests.engines.tiny_model import write_tiny_model

SERVED_NAME = "tiny-llama"
CONTEXT = 4096
START_WITHIN_S = 300.0
STOP_WITHIN_S = 30.0

FLAGS = {
    "--served-model-name": SERVED_NAME,
    "--load-format": "dummy",
    "--max-model-len": str(CONTEXT),
    "--max-num-seqs": "16",
    "--distributed-executor-backend": "uni",  # see VLLM_ENABLE_V1_MULTIPROCESSING
    "--tool-call-parser": "hermes",
    # This one thinks only when asked to (chat_template_kwargs.thinking); with others a random model never stops thinking.
    "--reasoning-parser": "deepseek_v3",
    # xgrammar is what `auto` takes first; free whitespace between tokens is what a random model fills its budget with.
    "--structured-outputs-config": json.dumps({"backend": "xgrammar", "disable_any_whitespace": True}),
}
# Without --enable-scale-out, /inference/v1/generate is a 403.
SWITCHES = ("--enforce-eager", "--enable-auto-tool-choice", "--enable-scale-out")


@dataclass(frozen=True, slots=True)
class Engine:
    """Where a running engine listens, and what its model is called there."""

    base_url: str
    model: str

    def running_requests(self) -> float:
        """How many requests it is computing now."""
        return self._metric("vllm:num_requests_running")

    def generated_tokens(self) -> float:
        """How many tokens it has computed since it was started."""
        return self._metric("vllm:generation_tokens_total")

    def becomes_idle(self, within_s: float) -> bool:
        """Whether it stops computing in that time."""
        deadline = time.monotonic() + within_s
        while self.running_requests():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _metric(self, name: str) -> float:
        lines = httpx.get(f"{self.base_url}/metrics", timeout=10).text.splitlines()
        [value] = [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{")]
        return value


@contextmanager
def running_vllm(
    venv: Path,
    runner: Literal["generate", "pooling"] = "generate",
    switches: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Generator[Engine]:
    """Start the vLLM of this environment with a tiny random model, and end it and its children afterwards.

    `runner`: one that writes, or one that embeds; a process is either. `switches` and `environment`: what else it is started with.
    """
    write_tiny_model(venv / "models" / "tiny", CONTEXT)
    port = free_port()
    address = ["--host", "127.0.0.1", "--port", str(port)]
    command = [
        str(venv / "bin" / "vllm"),
        "serve",
        str(venv / "models" / "tiny"),
        *address,
        *SWITCHES,
        *(w for f in FLAGS.items() for w in f),
        *("--runner", runner),
        *switches,
    ]
    log = venv / f"{runner}.log"
    own = {**_environment(venv), **environment}
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=own, stdout=output, stderr=output, start_new_session=True) as process,
    ):
        try:
            engine = Engine(f"http://127.0.0.1:{port}", SERVED_NAME)
            _wait_until_healthy(engine, process, log)
            yield engine
        finally:
            _stop(process)


def _environment(venv: Path) -> dict[str, str]:
    return os.environ | {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(venv / "cache"),
        "VLLM_CONFIG_ROOT": str(venv / "config"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # Its engine and workers in one process and one thread: as several they wait for each other in loops of sched_yield, beside
        # which the HTTP server, and its clients, were seen to stand still for seconds on two cores (hang-ups included).
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "OMP_NUM_THREADS": "1",
    }


def _wait_until_healthy(engine: Engine, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"vLLM ended with status {process.returncode}:\n{_tail(log)}")
        with suppress(httpx.TransportError):
            if httpx.get(f"{engine.base_url}/health", timeout=5).status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"vLLM was not healthy within {START_WITHIN_S:.0f} s:\n{_tail(log)}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_WITHIN_S)
    # Its engine core and workers share its group; they outlive a parent that was killed rather than asked.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])
