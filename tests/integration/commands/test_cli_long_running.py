"""Commands that run until SIGTERM: serve and writer with external Postgres and Redis, and the sandbox engine alone."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest

from tests.integration.commands.test_cli import run_json_command, writer_status
from tests.support.processes.postgres import Postgres
from tests.support.processes.service import NARTHEX, PROCESS_TIMEOUT_S, REQUEST_TIMEOUT_S, Service, is_ready
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import block_until


def test_serve_and_writer_run_with_external_postgres_and_redis(service: Service, tmp_path: Path) -> None:
    port = _free_port()
    redis_url = dict(line.split("=", 1) for line in (service.home / "run" / "servers").read_text().splitlines())["REDIS_URL"]
    servers = {"DATABASE_URL": database_url(service), "REDIS_URL": redis_url, "NARTHEX_WORKERS": "1"}
    own = {"NARTHEX_HOME": str(tmp_path), "NARTHEX_PORT": str(port), "NARTHEX_KEY": service.key, **servers}
    beside = Service(tmp_path, f"http://127.0.0.1:{port}", service.process, {**service.environment, **own})
    with _running(beside, "serve") as serving, _running(beside, "writer") as writing:
        block_until(lambda: is_ready(beside.url), PROCESS_TIMEOUT_S)
        chat_result = run_json_command(beside, "chat", "sandbox", "Beside.")
        assert "Beside." in chat_result["text"]
        block_until(lambda: _is_stored(service, chat_result["inference_id"]))
        block_until(lambda: writer_status(beside)["rows"] == 1)  # the writer reports once a second
        found = run_json_command(beside, "status")
        assert found["ready"] and found["writer"]["running"] and found["address"] == beside.url
        running = {each["name"] for each in found["processes"] if each["running"]}
        assert running == {"supervisor", "gateway-0"}  # the writer is a command of its own, known by its reports alone
    assert (serving.returncode, writing.returncode) == (0, 0)


def test_sandbox_runs_alone(service: Service) -> None:
    port = _free_port()
    with _running(service, "sandbox", "--port", str(port)):
        block_until(lambda: _answers(f"http://127.0.0.1:{port}/v1/models"), PROCESS_TIMEOUT_S)


@contextlib.contextmanager
def _running(service: Service, *arguments: str) -> Generator[subprocess.Popen[bytes]]:
    """A command that ends with SIGTERM, and has ended afterwards."""
    process = subprocess.Popen(
        [NARTHEX, *arguments], env=dict(service.environment), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PROCESS_TIMEOUT_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _is_stored(service: Service, id: str) -> bool:
    headers = {"authorization": f"Bearer {service.admin_key}"}
    url = f"{service.url}/admin/v1/inferences/{id}"
    return httpx2.get(url, headers=headers, timeout=REQUEST_TIMEOUT_S, trust_env=False).status_code == 200


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=10, trust_env=False, verify=False).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.mark.parametrize(
    ("database", "what", "mend"),
    [
        ("unreachable", "The database could not be used", "Start PostgreSQL"),
        ("empty", "The database has no tables", "`narthex migrate`"),
        ("unknown", "There is no such database", "`createdb`"),
    ],
)
async def test_serve_without_a_usable_database_names_the_remedy(postgres: Postgres, tmp_path: Path, database: str, what: str, mend: str):
    if database == "empty":
        await postgres.execute("CREATE DATABASE without_tables")
    urls = {
        "unreachable": "postgresql://narthex:secret-of-mine@127.0.0.1:9/narthex",
        "empty": postgres.database_url("without_tables"),
        "unknown": postgres.database_url("of_nobody"),
    }
    environment = {**os.environ, "NARTHEX_HOME": str(tmp_path), "NARTHEX_PORT": str(_free_port()), "DATABASE_URL": urls[database]}
    ended = await asyncio.to_thread(
        subprocess.run, [NARTHEX, "serve"], env=environment, capture_output=True, text=True, timeout=PROCESS_TIMEOUT_S, check=False
    )
    assert ended.returncode == 1
    assert what in ended.stderr and mend in ended.stderr and len(ended.stderr.strip().splitlines()) == 2, ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr and "secret-of-mine" not in ended.stdout + ended.stderr


def test_status_of_a_home_whose_port_another_home_uses_fails(service: Service, tmp_path: Path) -> None:
    elsewhere = Service(tmp_path, service.url, service.process, {**service.environment, "NARTHEX_HOME": str(tmp_path)})
    found = run_json_command(elsewhere, "status", status=1)
    assert found["gateway"]["state"] == "other home" and not found["ready"] and not found["healthy"]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
