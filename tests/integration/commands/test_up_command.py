"""The command `narthex up` as an operator runs it: the real command with real servers and signals.

One service is shared by the tests of this module, and restarted by one of them.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from app.cli import main
from app.store.configuration.config_file import parse_config_file
from app.store.teams.shown_keys import list_keys
from app.supervisor import local_engines
from app.supervisor.database_query import query_database
from app.supervisor.machine import orphans
from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.home import erase_home
from app.supervisor.postgres import Postgres
from tests.support.processes.service import PROCESS_TIMEOUT_S, REQUEST_TIMEOUT_S
from tests.support.processes.wait_until import block_until

PROCESSES = ("postgres", "valkey", "sandbox", "writer", "gateway-0", "gateway-1")
NARTHEX = [sys.executable, "-P", "-m", "app.cli"]


class RunningUp:
    """A running `narthex up` with two workers; `output` is what it has printed since its last start."""

    def __init__(self, home: Path, port: int) -> None:
        self.home, self.port = home, port
        self.url = f"http://127.0.0.1:{port}"
        self._environment = clean_environment(home, port) | {"NARTHEX_WORKERS": "2"}
        self._output_path = home.with_name("output")
        self.start()

    def start(self) -> None:
        with self._output_path.open("wb") as output:
            self.process = subprocess.Popen([*NARTHEX, "up"], stdout=output, stderr=output, env=self._environment)
        block_until(lambda: "Ctrl-C stops" in self.output or self.process.poll() is not None, PROCESS_TIMEOUT_S)
        assert self.process.poll() is None, self.output

    @property
    def output(self) -> str:
        return self._output_path.read_text()

    @property
    def key(self) -> str:
        return (self.home / "first-key").read_text().strip()

    def pid(self, name: str) -> int:
        return int((self.home / "run" / f"{name}.pid").read_text())

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Another narthex command in a process of its own."""
        return narthex(self._environment, *arguments, stdin=stdin)

    def run_here(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """The same in this process, which is faster."""
        return narthex_here(self._environment, *arguments, stdin=stdin)

    def chat(self, model: str = "sandbox", key: str = "") -> httpx2.Response:
        headers = {"authorization": f"Bearer {key or self.key}"}
        body = {"model": model, "messages": [{"role": "user", "content": "Hello!"}]}
        return httpx2.post(
            f"{self.url}/v1/chat/completions", json=body, headers=headers, timeout=REQUEST_TIMEOUT_S, trust_env=False, verify=False
        )

    def inference_records(self) -> list[Any]:
        admin = (self.home / "admin-key").read_text().strip()
        headers = {"authorization": f"Bearer {admin}"}
        answer = httpx2.get(f"{self.url}/admin/v1/inferences", headers=headers, timeout=REQUEST_TIMEOUT_S, trust_env=False, verify=False)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def terminate(self, signal_number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(signal_number)
        return self.process.wait(PROCESS_TIMEOUT_S)


def narthex(environment: Mapping[str, str], *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*NARTHEX, *arguments], env=environment, input=stdin, capture_output=True, text=True, timeout=PROCESS_TIMEOUT_S, check=False
    )


def narthex_here(environment: Mapping[str, str], *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command without the second that starting a process takes.

    Raises whatever a process would end on with a traceback.
    """
    done = CliRunner().invoke(main, arguments, input=stdin, env=environment)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def clean_environment(home: Path, port: int) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NARTHEX_")}
    return inherited | {"NARTHEX_HOME": str(home), "NARTHEX_PORT": str(port), "DATABASE_URL": "", "REDIS_URL": ""}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def remaining_processes(home: Path) -> set[int]:
    """Processes that belong to this home."""
    data = (home / "data").resolve()
    supervised = orphans.pids_with_variable(f"NARTHEX_SUPERVISED={home}".encode())
    return supervised | orphans.pids_with_working_folder(data / "postgres") | orphans.pids_with_working_folder(data / "valkey")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    assert remaining_processes(tmp_path / "home") == set()
    erase_home(tmp_path / "home")


@pytest.fixture(scope="module")
def running_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningUp]:
    home = tmp_path_factory.mktemp("up") / "home"
    up = RunningUp(home, free_port())
    try:
        yield up
        assert up.terminate(signal.SIGTERM) == 0, up.output
        assert remaining_processes(home) == set()
    finally:
        if up.process.poll() is None:
            up.terminate()
        erase_home(home)


def test_printed_examples_work_when_pasted(running_up: RunningUp) -> None:
    curl = re.search(r"^curl .*?\}'$", running_up.output, re.MULTILINE | re.DOTALL)
    python = re.search(r"^\S+ - <<'END'.*?^END$", running_up.output, re.MULTILINE | re.DOTALL)
    assert curl is not None and python is not None
    answer = subprocess.run(["bash", "-c", curl[0].replace("curl ", "curl -sS ", 1)], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["choices"][0]["message"]["content"]
    completed = subprocess.run(["bash", "-c", python[0]], capture_output=True, text=True, check=True)
    assert completed.stdout.strip()
    assert f"{running_up.url}/docs" in running_up.output
    assert httpx2.get(f"{running_up.url}/docs", trust_env=False).status_code == 200


def test_key_files_and_data_folders_are_private_to_their_owner(running_up: RunningUp) -> None:
    for name in ("first-key", "admin-key", "run/servers"):
        found = (running_up.home / name).stat()
        assert (found.st_mode & 0o777, found.st_uid) == (0o600, os.geteuid())
    data = (running_up.home / "data").resolve()
    for name in ("postgres", "valkey"):
        assert (data / name).stat().st_mode & 0o077 == 0


def test_embedded_postgres_and_valkey_listen_on_no_tcp_port(running_up: RunningUp) -> None:
    assert "listening on IPv" not in (running_up.home / "logs" / "postgres.log").read_text()
    assert "tcp" not in (running_up.home / "logs" / "valkey.log").read_text().lower()


@pytest.mark.parametrize("name", PROCESSES)
def test_killed_process_is_restarted_and_requests_keep_being_answered(running_up: RunningUp, name: str) -> None:
    before = running_up.pid(name)
    os.kill(before, signal.SIGKILL)
    # The port accepts every request, whichever process was killed.
    assert running_up.chat().status_code in (200, 502, 503)
    block_until(lambda: running_up.pid(name) != before and Path(f"/proc/{running_up.pid(name)}").exists())
    block_until(lambda: running_up.chat().status_code == 200)
    assert f"{name} was ended by SIGKILL; restarting it" in running_up.output


def test_cli_commands_find_the_running_services_database(running_up: RunningUp) -> None:
    created = running_up.run("keys", "create", "--team", "search", "--name", "a test", "--quiet")
    assert created.returncode == 0, created.stderr
    key = created.stdout.strip()
    assert created.stdout == key + "\n"
    assert running_up.chat(key=key).status_code == 200
    assert "search" in running_up.run_here("keys", "list").stdout
    assert running_up.run_here("keys", "revoke", key.rpartition("-")[0] if key.count("-") == 2 else key, "--yes").returncode == 0
    block_until(lambda: running_up.chat(key=key).status_code == 401)


def test_configuration_file_is_applied_and_exported(running_up: RunningUp) -> None:
    file = '[models.mine]\ntargets = [{ provider = "sandbox", model = "sandbox" }]\n'
    unconfirmed = running_up.run("apply", "-", stdin=file)
    assert unconfirmed.returncode == 1 and "--yes" in unconfirmed.stderr
    applied = running_up.run_here("apply", "--yes", "-", stdin=file)
    assert applied.returncode == 0 and "+[models.mine]" in applied.stdout, applied
    assert "models.mine" in running_up.run_here("export").stdout
    invalid = running_up.run_here("apply", "--yes", "-", stdin=file.replace('provider = "sandbox"', 'provider = "nobody"'))
    assert invalid.returncode == 1 and "nobody" in invalid.stderr


def test_second_up_in_the_same_home_is_refused(running_up: RunningUp) -> None:
    second = running_up.run("up")
    assert second.returncode == 1
    assert f"already runs in {running_up.home} (process {running_up.process.pid})" in second.stderr


def test_busy_port_error_names_its_holder(running_up: RunningUp, home: Path) -> None:
    second = narthex(clean_environment(home, running_up.port), "up")
    assert second.returncode == 1
    assert f"Port {running_up.port} of 127.0.0.1 is taken by " in second.stderr and "NARTHEX_PORT" in second.stderr


def test_ctrl_c_drains_and_leaves_no_process_and_restarts_keep_the_data(running_up: RunningUp) -> None:
    key, home = running_up.key, running_up.home
    with ThreadPoolExecutor(1) as caller:
        response = caller.submit(running_up.chat, "sandbox-slow")
        block_until(
            lambda: (
                "narthex_requests_in_flight 1.0" in httpx2.get(f"{running_up.url}/metrics", timeout=60, trust_env=False, verify=False).text
            )
        )
        assert running_up.terminate() == 0, running_up.output
        inference_id = response.result().json()["id"]
    assert remaining_processes(home) == set()
    assert sorted(each.name for each in (home / "run").glob("*.pid")) == ["supervisor.pid"]

    running_up.start()
    assert running_up.key == key
    block_until(lambda: inference_id in [each["id"] for each in running_up.inference_records()])
    answer = running_up.chat()
    assert answer.status_code == 200, answer.text + running_up.output

    # A killed supervisor takes its processes with it; the next start finds everything.
    running_up.terminate(signal.SIGKILL)
    running_up.start()
    assert running_up.key == key and running_up.chat().status_code == 200
    assert inference_id in [each["id"] for each in running_up.inference_records()]


def test_command_without_a_database_says_what_to_do(home: Path) -> None:
    completed = narthex_here(clean_environment(home, 1), "keys", "list")
    assert completed.returncode == 1 and "narthex up" in completed.stderr and "DATABASE_URL" in completed.stderr
    away = narthex(clean_environment(home, 1) | {"DATABASE_URL": f"postgresql://nobody@127.0.0.1:{free_port()}/none"}, "keys", "list")
    assert away.returncode == 1 and "could not be used" in away.stderr and "Traceback" not in away.stderr
    with pytest.raises(OperatorError, match="DATABASE_URL must be"):
        query_database("mysql://somewhere", list_keys)


def test_invalid_setting_is_named(home: Path) -> None:
    completed = narthex(clean_environment(home, 1) | {"NARTHEX_WORKERS": "many"}, "up")
    assert completed.returncode == 2 and "NARTHEX_WORKERS='many'" in completed.stderr


def test_unusable_postgres_data_is_left_alone_with_advice(home: Path) -> None:
    postgres = Postgres(home)
    postgres.start()
    postgres.stop()
    data = (home / "data").resolve() / "postgres"
    (data / "global" / "pg_control").write_bytes(b"not a control file")
    with pytest.raises(OperatorError, match=r"could not start(.|\n)*pg_control(.|\n)*mv "):
        Postgres(home).start()
    (data / "PG_VERSION").write_text("12\n")
    with pytest.raises(OperatorError, match=r"made by PostgreSQL 12.*\n?.*pg_dump"):
        Postgres(home).start()
    (data / "PG_VERSION").unlink()
    completed = narthex(clean_environment(home, free_port()), "up")
    assert completed.returncode == 1 and "Traceback" not in completed.stderr
    assert "no PG_VERSION" in completed.stderr and "mv " in completed.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder another user's")
def test_home_owned_by_another_user_is_refused(home: Path) -> None:
    home.mkdir()
    os.chown(home, 65534, 65534)
    completed = narthex(clean_environment(home, free_port()), "up")
    assert completed.returncode == 1 and "belongs to" in completed.stderr


def test_symlinked_socket_folder_is_refused(home: Path) -> None:
    postgres = Postgres(home)
    sockets = Path(postgres.url.partition("host=")[2])
    sockets.rmdir()
    sockets.symlink_to(home)
    try:
        completed = narthex(clean_environment(home, free_port()), "up")
        assert completed.returncode == 1 and f"{sockets}" in completed.stderr
    finally:
        with contextlib.suppress(FileNotFoundError):
            sockets.unlink()


class FakeOllamaHandler(BaseHTTPRequestHandler):
    """The routes by which Ollama is identified."""

    def do_GET(self) -> None:
        body = {"/api/version": {"version": "0.12"}, "/v1/models": {"data": [{"id": 'llama"3:1b', "owned_by": "library"}]}}.get(self.path)
        self.send_response(200 if body else 404)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_local_ollama_is_offered_with_configuration_to_paste() -> None:
    with HTTPServer(("127.0.0.1", 0), FakeOllamaHandler) as server:
        answering = Thread(target=server.serve_forever)
        answering.start()
        port = server.server_port
        ports = [port, 9]
        offered: list[str] = []

        def is_offered() -> bool:  # probes have short timeouts, which a busy machine may exceed
            offered[:] = local_engines.find_engines(ports, own_ports=(), configured=())
            return bool(offered)

        try:
            block_until(is_offered)
            assert local_engines.find_engines(ports, own_ports={port}, configured=()) == []
            assert local_engines.find_engines(ports, own_ports=(), configured={("localhost", port)}) == []
        finally:
            server.shutdown()
            answering.join()
    assert len(offered) == 1 and offered[0].startswith(f"Ollama answers on http://127.0.0.1:{port}.")
    file = parse_config_file(offered[0].partition("<<'END'\n")[2].removesuffix("END\n"))
    assert file.providers and file.providers["ollama"].base_url == f"http://127.0.0.1:{port}"
    assert file.models and file.models['llama"3:1b'].targets[0].provider == "ollama"
