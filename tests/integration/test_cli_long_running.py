"""Commands that run until they are told to end: serve and writer on servers of one's own, and the sandbox engine alone."""

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from pathlib import Path

import httpx

from tests.integration.test_cli import run_json_command
from tests.support.service import NARTHEX, Service, is_ready
from tests.support.service_inspection import database_url


def test_serve_and_writer_run_with_external_postgres_and_redis(service: Service, tmp_path: Path) -> None:
    port = _free_port()
    redis_url = dict(line.split("=", 1) for line in (service.home / "run" / "servers").read_text().splitlines())["REDIS_URL"]
    servers = {"DATABASE_URL": database_url(service), "REDIS_URL": redis_url, "NARTHEX_WORKERS": "1"}
    own = {"NARTHEX_HOME": str(tmp_path), "NARTHEX_PORT": str(port), "NARTHEX_KEY": service.key, **servers}
    beside = Service(tmp_path, f"http://127.0.0.1:{port}", service.process, {**service.environment, **own})
    with _running(beside, "serve") as serving, _running(beside, "writer") as writing:
        _wait_until(lambda: is_ready(beside.url))
        chat_result = run_json_command(beside, "chat", "sandbox", "Beside.")
        assert "Beside." in chat_result["text"]
        _wait_until(lambda: _is_stored(service, chat_result["inference_id"]))
        _wait_until(lambda: run_json_command(beside, "status")["writer"]["rows"] == 1)  # the writer says once a second how it goes
        found = run_json_command(beside, "status")
        assert found["ready"] and found["writer"]["running"] and found["address"] == beside.url
        running = {each["name"] for each in found["processes"] if each["runs"]}
        assert running == {"supervisor", "gateway-0"}  # the writer was started by hand, and is known by what it says
    assert (serving.returncode, writing.returncode) == (0, 0)


def test_sandbox_runs_alone(service: Service) -> None:
    port = _free_port()
    with _running(service, "sandbox", "--port", str(port)):
        _wait_until(lambda: _answers(f"http://127.0.0.1:{port}/v1/models"))


@contextlib.contextmanager
def _running(service: Service, *arguments: str) -> Generator[subprocess.Popen[bytes]]:
    """Until it is told to end with SIGTERM, and has ended."""
    process = subprocess.Popen(
        [NARTHEX, *arguments], env=dict(service.environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _is_stored(service: Service, id: str) -> bool:
    headers = {"authorization": f"Bearer {service.admin_key}"}
    return httpx.get(f"{service.url}/admin/v1/inferences/{id}", headers=headers, timeout=10, trust_env=False).status_code == 200


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


def _wait_until(holds: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)
