"""Peers: other gateways, one row each: how to install, start and call them. Everything that can be off is off."""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from bench.c_programs import BENCH_FOLDER
from bench.cores import Cores, run_children_on
from bench.errors import BenchmarkError
from bench.system import System, free_port, start_process, wait_until_ready

INSTALL_TIMEOUT_S = 900


@dataclass(frozen=True, slots=True)
class Peer:
    """A gateway to compare with. `program`: a path below bench/, or a name on the PATH.

    In `command`, `headers`, `environment` and `config`, these are replaced: @PROGRAM@, @PORT@, @SPARE_PORT@, @ENGINE_PORT@, @FOLDER@ (its
    own) and @SECRET@ (of this run).
    """

    name: str
    description: str
    program: str
    command: Sequence[str]
    install: Sequence[Sequence[str]] = ()  # commands run in bench/; none: the machine's owner installs it
    installer: str = ""  # a program that `install` needs
    config: str = ""  # a file in bench/
    headers: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: {})
    ready_path: str = "/v1/models"
    start_timeout_s: float = 60


def _python_install(folder: str, package: str) -> Sequence[Sequence[str]]:
    return ((sys.executable, "-m", "venv", folder), (f"{folder}/bin/pip", "install", "--quiet", package))


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "nginx",
            "C; forwards bytes, nothing else",
            "nginx",
            ("@PROGRAM@", "-p", "@FOLDER@", "-c", "@FOLDER@/nginx.conf"),
            config="nginx.conf",
        ),
        Peer(
            "sglang-router",
            "0.3.2, Rust; round robin, nothing else on",
            ".venv-sglang-router/bin/python",
            (
                *("@PROGRAM@", "-m", "sglang_router.launch_router", "--host", "127.0.0.1", "--port", "@PORT@"),
                *("--worker-urls", "http://127.0.0.1:@ENGINE_PORT@", "--policy", "round_robin", "--log-level", "error"),
                *("--prometheus-port", "@SPARE_PORT@", "--max-concurrent-requests", "4096", "--disable-health-check"),
            ),
            _python_install(".venv-sglang-router", "sglang-router==0.3.2"),
        ),
        Peer(
            "vllm-router",
            "0.1.17, Rust; round robin, nothing else on",
            ".venv-vllm-router/bin/vllm-router",
            (
                *("@PROGRAM@", "--host", "127.0.0.1", "--port", "@PORT@", "--worker-urls", "http://127.0.0.1:@ENGINE_PORT@"),
                *("--policy", "round_robin", "--log-level", "error", "--prometheus-port", "@SPARE_PORT@"),
                *("--max-concurrent-requests", "4096"),
            ),
            _python_install(".venv-vllm-router", "vllm-router==0.1.17"),
        ),
        Peer(
            "litellm",
            "1.106.2, Python; no database, one master key",
            ".venv-litellm/bin/litellm",
            ("@PROGRAM@", "--host", "127.0.0.1", "--port", "@PORT@", "--num_workers", "1", "--config", "@FOLDER@/litellm.yaml"),
            _python_install(".venv-litellm", "litellm[proxy]==1.106.2"),
            config="litellm.yaml",
            # Without the first it downloads a price list when it starts.
            environment={
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "LITELLM_LOG": "ERROR",
                "LITELLM_MODE": "PRODUCTION",
                "LITELLM_MASTER_KEY": "@SECRET@",  # it refuses to start without one
            },
            headers=("authorization: Bearer @SECRET@",),
            ready_path="/health/liveliness",
            start_timeout_s=120,
        ),
        Peer(
            "portkey",
            "1.15.2, Node; no keys, no cache",
            ".venv-portkey/node_modules/.bin/gateway",
            ("@PROGRAM@", "--port=@PORT@", "--headless"),
            (("npm", "install", "--ignore-scripts", "--no-fund", "--no-audit", "--prefix", ".venv-portkey", "@portkey-ai/gateway@1.15.2"),),
            installer="npm",
            headers=(
                "authorization: Bearer none",
                "x-portkey-provider: openai",
                "x-portkey-custom-host: http://127.0.0.1:@ENGINE_PORT@/v1",
            ),
            environment={"TRUSTED_CUSTOM_HOSTS": "127.0.0.1", "NODE_ENV": "production"},
            ready_path="/",
        ),
    )
}


@contextmanager
def run_peer(peer: Peer, engine_port: int, cores: Cores, folder: Path, may_install: bool) -> Generator[System]:
    """Runs it. Raises BenchmarkError if it is missing, cannot be installed or does not start."""
    home = folder / peer.name
    home.mkdir()
    placeholders = {
        "@PROGRAM@": str(_find_program(peer, may_install)),
        "@PORT@": str(free_port()),
        "@SPARE_PORT@": str(free_port()),
        "@ENGINE_PORT@": str(engine_port),
        "@FOLDER@": str(home),
        "@SECRET@": f"sk-{token_hex(16)}",
    }
    if peer.config:
        (home / peer.config).write_text(_fill_placeholders((BENCH_FOLDER / peer.config).read_text(), placeholders))
    port, log = int(placeholders["@PORT@"]), home / "log"
    with run_children_on(cores.proxy):
        process = start_process(
            [_fill_placeholders(argument, placeholders) for argument in peer.command],
            log,
            {name: _fill_placeholders(value, placeholders) for name, value in peer.environment.items()},
        )
        with process as pid:
            wait_until_ready(peer.name, port, peer.ready_path, pid, log, peer.start_timeout_s)
            yield System(peer.name, peer.description, port, [pid], [_fill_placeholders(header, placeholders) for header in peer.headers])


def _fill_placeholders(text: str, placeholders: Mapping[str, str]) -> str:
    for placeholder, value in placeholders.items():
        text = text.replace(placeholder, value)
    return text


def _find_program(peer: Peer, may_install: bool) -> Path:
    if "/" not in peer.program:
        program_path = shutil.which(peer.program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program_path is None:
            raise BenchmarkError(f"{peer.program} is not on the PATH.")
        return Path(program_path)
    program = BENCH_FOLDER / peer.program
    if not program.exists():
        if not may_install:
            raise BenchmarkError(f"{peer.name} is not installed, and --no-install forbids installing it.")
        _install(peer)
    if not program.exists():
        raise BenchmarkError(f"{peer.name} was installed, but without {peer.program}.")
    return program


def _install(peer: Peer) -> None:
    if peer.installer and shutil.which(peer.installer) is None:
        raise BenchmarkError(f"Installing {peer.name} needs {peer.installer}, which is not on the PATH.")
    print(f"installing {peer.name} for comparison (once, into bench/{peer.program.split('/', 1)[0]}) ...", flush=True)
    for command in peer.install:
        try:
            completed = subprocess.run(command, cwd=BENCH_FOLDER, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"Installing {peer.name} took more than {INSTALL_TIMEOUT_S} s.") from None
        if completed.returncode:
            raise BenchmarkError(f"{peer.name} could not be installed: {' '.join((completed.stderr or completed.stdout).split()[-30:])}")
