"""A real `vllm serve`, running for the duration of a `with` block."""

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

import httpx2

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
    # It thinks only on request (chat_template_kwargs.thinking); with other parsers a random model never stops thinking.
    "--reasoning-parser": "deepseek_v3",
    # xgrammar is the first choice of `auto`; with free whitespace between tokens a random model would write nothing else.
    "--structured-outputs-config": json.dumps({"backend": "xgrammar", "disable_any_whitespace": True}),
}
# Without --enable-scale-out, /inference/v1/generate is a 403.
SWITCHES = ("--enforce-eager", "--enable-auto-tool-choice", "--enable-scale-out")


@dataclass(frozen=True, slots=True)
class Engine:
    """The base URL of a running engine, and the name of its model there."""

    base_url: str
    model: str

    def running_requests(self) -> float:
        """The number of requests that it is computing now."""
        return self._metric("vllm:num_requests_running")

    def generated_tokens(self) -> float:
        """The number of tokens generated since it was started."""
        return self._metric("vllm:generation_tokens_total")

    def becomes_idle(self, within_s: float) -> bool:
        """Returns whether it stops computing within that time."""
        deadline = time.monotonic() + within_s
        while self.running_requests():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _metric(self, name: str) -> float:
        lines = httpx2.get(f"{self.base_url}/metrics", timeout=60).text.splitlines()
        [value] = [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{")]
        return value


@contextmanager
def running_vllm(
    venv: Path,
    runner: Literal["generate", "pooling"] = "generate",
    switches: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Generator[Engine]:
    """Start the vLLM of this environment with a tiny random model; afterwards stop it and its children.

    A process either generates or embeds, as `runner` says. `switches` and `environment` are further flags and environment variables.
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
        *(argument for flag in FLAGS.items() for argument in flag),
        *("--runner", runner),
        *switches,
    ]
    log = venv / f"{runner}.log"
    process_environment = {**_environment(venv), **environment}
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=process_environment, stdout=output, stderr=output, start_new_session=True) as process,
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
        # Its engine and workers in one process and one thread: several wait for each other in loops of sched_yield, and on two
        # cores the HTTP server and its clients then stall for seconds, disconnects included.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "OMP_NUM_THREADS": "1",
    }


def _wait_until_healthy(engine: Engine, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"vLLM ended with status {process.returncode}:\n{_tail(log)}")
        with suppress(httpx2.TransportError):
            if httpx2.get(f"{engine.base_url}/health", timeout=30).status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"vLLM was not healthy within {START_WITHIN_S:.0f} s:\n{_tail(log)}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_WITHIN_S)
    # Its engine core and workers share its process group, and survive a parent that was killed.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])
