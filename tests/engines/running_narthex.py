"""Runs `narthex up` with embedded stores and a configuration for the duration of a `with` block."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from app.supervisor.machine.home import erase_home
from tests.engines.vllm.running_vllm import Engine, free_port

MODEL = "tiny"
NARTHEX = Path(sys.executable).with_name("narthex")
START_WITHIN_S = 120.0
STOP_WITHIN_S = 60.0
APPLY_WITHIN_S = 60.0

CONFIGURATION = """\
[providers."{model}"]
adapter = "{adapter}"
base_url = "{base_url}"
options = {{ {options} }}

[models."{model}"]
targets = [{{ provider = "{model}", model = "{served}" }}]
"""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway: its URL for callers, a caller's key, and the admin key."""

    base_url: str
    key: str
    admin_key: str


def engine_configuration(adapter: str, engine: Engine, model: str = MODEL, options: Mapping[str, Any] | None = None) -> str:
    """The configuration of one engine as one model; several of these texts can be concatenated."""
    options_text = ", ".join(f"{key} = {json.dumps(value)}" for key, value in (options or {}).items())
    return CONFIGURATION.format(adapter=adapter, base_url=engine.base_url, served=engine.model, model=model, options=options_text)


@contextmanager
def running_narthex(configuration: str, models: Sequence[str] = (MODEL,)) -> Generator[Gateway]:
    """Start a gateway with its inherited home directory, and wait until it lists `models`; afterwards stop it and delete the home.

    The configuration is what `narthex apply` takes; engine_configuration() writes the usual one.
    """
    with tempfile.TemporaryDirectory(prefix="narthex-engines-") as folder:
        # As root, the embedded servers run as another user, who must be able to reach their data.
        Path(folder).chmod(0o711)
        home = Path(folder) / "home"
        try:
            with _running_gateway(home, configuration, models) as gateway:
                yield gateway
        finally:
            erase_home(home)


@contextmanager
def _running_gateway(home: Path, configuration: str, models: Sequence[str]) -> Generator[Gateway]:
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    environment = inherited | {"NARTHEX_HOME": str(home), "NARTHEX_PORT": str(port)}
    log = home.with_name("narthex.log")
    with (
        log.open("wb") as output,
        subprocess.Popen([str(NARTHEX), "up"], env=environment, stdout=output, stderr=output, start_new_session=True) as process,
    ):
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_until_ready(address, process, log)
            _apply(home, configuration, environment)
            key, admin_key = ((home / name).read_text().strip() for name in ("first-key", "admin-key"))
            gateway = Gateway(f"{address}/v1", key, admin_key)
            _wait_until_models_listed(gateway, models)
            yield gateway
        finally:
            _stop(process)


def _apply(home: Path, configuration: str, environment: dict[str, str]) -> None:
    file = home.with_name("configuration.toml")
    file.write_text(configuration)
    completed = subprocess.run(
        [str(NARTHEX), "apply", str(file), "--yes"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=APPLY_WITHIN_S,
        check=False,
    )
    if completed.returncode:
        raise RuntimeError(f"narthex apply ended with status {completed.returncode}:\n{completed.stdout}")


def _wait_until_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"narthex up ended with status {process.returncode}:\n{log.read_text(errors='replace')}")
        with suppress(httpx2.TransportError):
            if httpx2.get(f"{address}/health/ready", timeout=30).status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"narthex up was not ready within {START_WITHIN_S:.0f} s:\n{log.read_text(errors='replace')}")


def _wait_until_models_listed(gateway: Gateway, models: Sequence[str]) -> None:
    deadline = time.monotonic() + APPLY_WITHIN_S
    listed: set[str] = set()
    while time.monotonic() < deadline:
        answer = httpx2.get(f"{gateway.base_url}/models", headers={"authorization": f"Bearer {gateway.key}"}, timeout=30)
        listed = {card["id"] for card in answer.raise_for_status().json()["data"]}
        if listed.issuperset(models):
            return
        time.sleep(0.2)
    raise RuntimeError(f"The gateway lists {sorted(listed)}, not all of {sorted(models)}.")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt it as Ctrl-C does, so that it stops its children too; kill it only if it does not end."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
