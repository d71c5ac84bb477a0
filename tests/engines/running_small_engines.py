"""Real servers of llama.cpp, llama-cpp-python and transformers, each running for the duration of a `with` block."""

import os
import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2

from tests.engines.environments import LLAMACPP, LLAMACPP_PYTHON, TRANSFORMERS
from tests.engines.tiny_gguf import write_tiny_gguf
from tests.engines.tiny_model import write_tiny_model
from tests.engines.tiny_weights import write_tiny_weights
from tests.engines.vllm.running_vllm import Engine, free_port

# Long enough that a disconnect stops a generation before its end: these engines write thousands of tokens a second.
CONTEXT = 16_384
_START_WITHIN_S = 120.0
_STOP_WITHIN_S = 30.0

# llama.cpp's server, started through xllamacpp: four slots of CONTEXT each, one thread.
_SERVER_SCRIPT = f"""
import signal, sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.hostnames, params.model_alias = ["127.0.0.1"], {{"tiny-gguf"}}
params.n_ctx, params.n_parallel, params.n_gpu_layers = {4 * CONTEXT}, 4, 0
params.cpuparams.n_threads, params.warmup, params.ui, params.endpoint_metrics = 1, False, False, True
server = xllamacpp.Server(params)
signal.pause()
"""


@contextmanager
def running_llamacpp(log: str = "server.log") -> Generator[Engine]:
    """Runs llama.cpp's server with a tiny model. Each server that runs at the same time has another name for its `log`."""
    model = LLAMACPP.venv / "models" / "tiny.gguf"
    write_tiny_gguf(model, CONTEXT)
    port = free_port()
    command = [str(LLAMACPP.python), "-c", _SERVER_SCRIPT, str(model), str(port)]
    with _running(command, port, "/health", LLAMACPP.venv / log, {}) as address:
        yield Engine(address, "tiny-gguf")


@contextmanager
def running_llamacpp_python() -> Generator[Engine]:
    model = LLAMACPP_PYTHON.venv / "models" / "tiny.gguf"
    write_tiny_gguf(model, CONTEXT)
    port = free_port()
    command = [str(LLAMACPP_PYTHON.python), "-m", "llama_cpp.server", "--model", str(model), "--model_alias", "tiny-gguf"]
    flags = ["--host", "127.0.0.1", "--port", str(port), "--n_ctx", str(CONTEXT), "--interrupt_requests", "false", "--verbose", "false"]
    with _running([*command, *flags], port, "/v1/models", LLAMACPP_PYTHON.venv / "server.log", {}) as address:
        yield Engine(address, "tiny-gguf")


@contextmanager
def running_transformers() -> Generator[Engine]:
    folder = TRANSFORMERS.venv / "models" / "tiny"
    write_tiny_model(folder, CONTEXT)
    write_tiny_weights(folder)
    hub = TRANSFORMERS.venv / "hub"  # /v1/models is a 500 where it is missing
    hub.mkdir(exist_ok=True)
    port = free_port()
    command = [str(TRANSFORMERS.venv / "bin" / "transformers"), "serve", str(folder), "--device", "cpu", "--dtype", "float32"]
    settings = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(hub)}
    address = ["--host", "127.0.0.1", "--port", str(port)]
    with _running([*command, *address], port, "/health", TRANSFORMERS.venv / "server.log", settings) as base_url:
        yield Engine(base_url, str(folder))


def cpu_time_s(engine: Engine) -> float:
    """Processor time used by the process that listens for an engine: shows whether an engine without metrics still computes."""
    port = f":{int(engine.base_url.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    [inode] = [row[9] for row in rows if row[1].endswith(port) and row[3] == "0A"]
    [pid] = {link.parts[2] for link in Path("/proc").glob("[0-9]*/fd/*") if _links_to(link, f"socket:[{inode}]")}
    after_name = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def becomes_idle(engine: Engine, within_cpu_s: float) -> bool:
    """Returns whether its process stops computing for a second before it has used so much processor time.

    Other load does not change the processor time that it uses.
    """
    start = before = cpu_time_s(engine)
    idle_halves = 0
    while before - start < within_cpu_s:
        time.sleep(0.5)
        after = cpu_time_s(engine)
        idle_halves = idle_halves + 1 if after - before < 0.1 else 0
        if idle_halves == 2:
            return True
        before = after
    return False


def _links_to(link: Path, target: str) -> bool:
    try:
        return str(link.readlink()) == target
    except OSError:
        return False


@contextmanager
def _running(command: Sequence[str], port: int, health_path: str, log: Path, settings: Mapping[str, str]) -> Generator[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **settings}
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True) as process,
    ):
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_until_alive(f"{address}{health_path}", process, log)
            yield address
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_WITHIN_S)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _wait_until_alive(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_WITHIN_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"The engine ended with status {process.returncode}:\n{log.read_text(errors='replace')[-3000:]}")
        with suppress(httpx2.TransportError):
            if httpx2.get(url, timeout=30).status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"{url} did not respond within {_START_WITHIN_S:.0f} s:\n{log.read_text(errors='replace')[-3000:]}")
