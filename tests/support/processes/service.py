"""The whole service, as `narthex up` starts it: one for all tests, and more for tests that want one of their own."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.support.documented_answers import check_answer
from tests.support.processes.commands import run_command
from tests.support.processes.fast_folder import fast_folder
from tests.support.processes.fork_server import ForkedProgram
from tests.support.processes.migrated_cluster import place_migrated_cluster
from tests.support.processes.wait_until import wait_until

NARTHEX = str(Path(sys.executable).with_name("narthex"))
# Limits for what succeeds in seconds on an idle machine. They only bound how long a failure takes to show.
PROCESS_TIMEOUT_S = 300.0
REQUEST_TIMEOUT_S = 120.0

Process = ForkedProgram | subprocess.Popen[bytes]


@dataclass
class Service:
    """A running gateway. `url` is its root; SDKs want `url + "/v1"`."""

    home: Path
    url: str
    process: Process
    environment: Mapping[str, str]

    @property
    def key(self) -> str:
        return (self.home / "first-key").read_text().strip()

    @property
    def admin_key(self) -> str:
        return (self.home / "admin-key").read_text().strip()

    def pid(self, name: str) -> int:
        return int((self.home / "run" / f"{name}.pid").read_text())

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A narthex command on this service."""
        return run_command(NARTHEX, arguments, self.environment, stdin, PROCESS_TIMEOUT_S)

    def apply(self, toml: str, *more: str) -> str:
        done = self.run("apply", "-", "--yes", *more, stdin=toml)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def client(self, **options: Any) -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {self.key}", **options.pop("headers", {})}
        # On this machine: without verify=False each client would load the certificate authorities, which takes 30 ms of processor time.
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=REQUEST_TIMEOUT_S, verify=False, **options)

    def admin_client(self) -> httpx2.AsyncClient:
        """Its answers are held to the OpenAPI document."""
        client = self.client(headers={"authorization": f"Bearer {self.admin_key}"})
        client.event_hooks = {"response": [check_answer]}
        return client

    def keyless_client(self) -> httpx2.AsyncClient:
        """A client that sends no key, unless a request names one."""
        return httpx2.AsyncClient(base_url=self.url, timeout=REQUEST_TIMEOUT_S, verify=False)

    async def wait_for_record(self, id: str, within_s: float = 120) -> dict[str, Any]:
        """An inference as the admin API shows it, once it is recorded."""
        async with self.admin_client() as admin:

            async def is_recorded() -> bool:
                nonlocal response
                response = await admin.get(f"/admin/v1/inferences/{id}")
                return response.status_code not in (404, 503)

            response = httpx2.Response(404)
            await wait_until(is_recorded, within_s)
        assert response.status_code == 200, response.text
        return response.json()


class PortTaken(AssertionError):
    """A port was taken by somebody else between its choice and its use."""


def start(within_s: float = PROCESS_TIMEOUT_S, *, home: Path | None = None, prefix: Sequence[str] = (), **settings: object) -> Service:
    """Starts `narthex up` in a folder of its own, unless `home` is that of an earlier service.

    Settings are given by their names without NARTHEX_. `prefix` is a command that ends by carrying out the one that follows it, such as
    unshare. The processes are forked from one that has imported everything, unless a prefix or a library to preload needs a real start;
    tests/integration/commands/test_up_command.py and test_cli_long_running.py start the real command.
    """
    for _ in range(2):
        with contextlib.suppress(PortTaken):
            return _start(within_s, home, prefix, settings)
    return _start(within_s, home, prefix, settings)


def _start(within_s: float, home: Path | None, prefix: Sequence[str], settings: Mapping[str, object]) -> Service:
    settings = dict(settings)
    is_new = home is None
    if home is None:
        home = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
        home.chmod(0o711)
    port = settings.pop("port", None) or free_port()
    variables = {f"NARTHEX_{name.upper()}": str(value) for name, value in settings.items()}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NARTHEX_")}
    environment = {
        **inherited,
        "NARTHEX_HOME": str(home),
        "NARTHEX_PORT": str(port),
        "NARTHEX_CREDENTIAL_FOLDERS": tempfile.gettempdir(),
        **variables,
    }
    if is_new and not environment.get("DATABASE_URL"):
        place_migrated_cluster(home)
    with (home / "up.log").open("wb") as log, open(os.devnull, "rb") as nothing:
        if prefix or "LD_PRELOAD" in environment:
            process = subprocess.Popen(
                [*prefix, NARTHEX, "up"], env=environment, stdin=nothing, stdout=log, stderr=log, start_new_session=True
            )
        else:
            process = ForkedProgram(
                [NARTHEX, "up"], environment, stdin=nothing.fileno(), stdout=log.fileno(), stderr=log.fileno(), start_new_session=True
            )
    scheme = "https" if "tls_cert" in settings else "http"
    service = Service(home, f"{scheme}://127.0.0.1:{port}", process, environment)
    deadline = time.monotonic() + within_s
    while not is_ready(service.url):
        if process.poll() is not None or time.monotonic() > deadline:
            stop(service, remove=False)
            log_text = (home / "up.log").read_text()
            kind = PortTaken if "address already in use" in log_text else AssertionError
            raise kind(f"narthex up ended, or was not ready within {within_s:g} s:\n{log_text}")
        time.sleep(0.1)
    return service


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def is_ready(url: str) -> bool:
    try:
        return httpx2.get(url + "/health/ready", timeout=10, trust_env=False, verify=False).status_code == 200
    except httpx2.TransportError:
        return False


def stop(service: Service, *, remove: bool = True) -> None:
    """Ends the service as SIGTERM does. `remove`: its folder, too."""
    service.process.send_signal(signal.SIGTERM)
    try:
        service.process.wait(PROCESS_TIMEOUT_S)
    finally:
        if service.process.poll() is None:
            service.process.kill()
    if remove:
        shutil.rmtree(service.home, ignore_errors=True)
