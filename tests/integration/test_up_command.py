"""`narthex up` as an operator meets it: the real command, the real servers, signals and all."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from app.store.configuration import parse_config_file
from app.store.keys import list_keys
from app.supervisor import local_engines, orphans
from app.supervisor.database_query import query_database
from app.supervisor.errors import OperatorError
from app.supervisor.paths import erase_home
from app.supervisor.postgres import Postgres
from app.supervisor.valkey import Valkey

PROCESSES = ("postgres", "valkey", "sandbox", "writer", "gateway-0", "gateway-1")
NARTHEX = [sys.executable, "-P", "-m", "app.cli"]


class RunningUp:
    """A running `narthex up` with two workers; `told` is what it has printed."""

    def __init__(self, home: Path, port: int, **environment: str) -> None:
        self.home, self.port = home, port
        self.url = f"http://127.0.0.1:{port}"
        self._environment = clean_environment(home, port) | {"NARTHEX_WORKERS": "2"} | environment
        self._output_path = home.with_name("told")
        with self._output_path.open("wb") as output:
            self.process = subprocess.Popen([*NARTHEX, "up"], stdout=output, stderr=output, env=self._environment)
        wait_until(lambda: "Ctrl-C stops" in self.output or self.process.poll() is not None, 60)
        assert self.process.poll() is None, self.output

    @property
    def output(self) -> str:
        return self._output_path.read_text()

    @property
    def key(self) -> str:
        return (self.home / "first-key").read_text().strip()

    def pid(self, name: str) -> int:
        return int((self.home / "run" / f"{name}.pid").read_text())

    def run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Another narthex command, typed beside it."""
        return narthex(self._environment, *arguments, given=given)

    def chat(self, model: str = "sandbox", key: str = "") -> httpx.Response:
        headers = {"authorization": f"Bearer {key or self.key}"}
        body = {"model": model, "messages": [{"role": "user", "content": "Hello!"}]}
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, headers=headers, timeout=30, trust_env=False)

    def inference_records(self) -> list[Any]:
        admin = (self.home / "admin-key").read_text().strip()
        answer = httpx.get(f"{self.url}/admin/v1/inferences", headers={"authorization": f"Bearer {admin}"}, timeout=30, trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def terminate(self, signal_number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(signal_number)
        return self.process.wait(60)


def narthex(environment: Mapping[str, str], *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*NARTHEX, *arguments], env=environment, input=given, capture_output=True, text=True, timeout=60, check=False)


def clean_environment(home: Path, port: int) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("NARTHEX_")}
    return inherited | {"NARTHEX_HOME": str(home), "NARTHEX_PORT": str(port), "DATABASE_URL": "", "REDIS_URL": ""}


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


def remaining_processes(home: Path) -> set[int]:
    """Processes that belong to this home."""
    data = (home / "data").resolve()
    ours = orphans.pids_with_variable(f"NARTHEX_SUPERVISED={home}".encode())
    return ours | orphans.pids_with_working_folder(data / "postgres") | orphans.pids_with_working_folder(data / "valkey")


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
    assert httpx.get(f"{running_up.url}/docs", trust_env=False).status_code == 200


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
    # Whichever process it was: the port takes every request, and it is answered.
    assert running_up.chat().status_code in (200, 502, 503)
    wait_until(lambda: running_up.pid(name) != before and Path(f"/proc/{running_up.pid(name)}").exists(), 10)
    wait_until(lambda: running_up.chat().status_code == 200, 20)
    assert f"{name} was ended by SIGKILL; it is started again" in running_up.output


def test_cli_commands_find_the_running_services_database(running_up: RunningUp) -> None:
    made = running_up.run("keys", "create", "--team", "search", "--name", "a test", "--quiet")
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    assert made.stdout == key + "\n"
    assert running_up.chat(key=key).status_code == 200
    assert "search" in running_up.run("keys", "list").stdout
    assert running_up.run("keys", "revoke", key.rpartition("-")[0] if key.count("-") == 2 else key).returncode == 0
    wait_until(lambda: running_up.chat(key=key).status_code == 401, 5)


def test_configuration_file_is_applied_and_exported(running_up: RunningUp) -> None:
    file = '[models.mine]\ntargets = [{ provider = "sandbox", model = "sandbox" }]\n'
    unasked = running_up.run("apply", "-", given=file)
    assert unasked.returncode == 1 and "--yes" in unasked.stderr
    applied = running_up.run("apply", "--yes", "-", given=file)
    assert applied.returncode == 0 and "+[models.mine]" in applied.stdout, applied
    assert "models.mine" in running_up.run("export").stdout
    wrong = running_up.run("apply", "--yes", "-", given='[models.mine]\ntargets = [{ provider = "nobody", model = "x" }]\n')
    assert wrong.returncode == 1 and "nobody" in wrong.stderr and "Traceback" not in wrong.stderr


def test_second_up_in_the_same_home_is_refused(running_up: RunningUp) -> None:
    second = running_up.run("up")
    assert second.returncode == 1
    assert f"already runs in {running_up.home} (process {running_up.process.pid})" in second.stderr


def test_busy_port_error_names_its_holder(running_up: RunningUp, home: Path) -> None:
    second = narthex(clean_environment(home, running_up.port), "up")
    assert second.returncode == 1
    assert f"Port {running_up.port} of 127.0.0.1 is taken by " in second.stderr and "NARTHEX_PORT" in second.stderr


def test_ctrl_c_drains_and_leaves_no_process_and_restarts_keep_the_data(home: Path) -> None:
    first = RunningUp(home, free_port())
    key = first.key
    with ThreadPoolExecutor(1) as caller:
        under_way = caller.submit(first.chat, "sandbox-slow")
        wait_until(lambda: "narthex_requests_in_flight 1.0" in httpx.get(f"{first.url}/metrics", trust_env=False).text, 10)
        assert first.terminate() == 0, first.output
        inference_id = under_way.result().json()["id"]
    assert remaining_processes(home) == set()
    assert sorted(each.name for each in (home / "run").glob("*.pid")) == ["supervisor.pid"]

    began = time.monotonic()
    second = RunningUp(home, first.port)
    took_s = time.monotonic() - began
    try:
        assert took_s < 15
        assert second.key == key
        wait_until(lambda: inference_id in [each["id"] for each in second.inference_records()], 10)
        answer = second.chat()
        assert answer.status_code == 200, answer.text + second.output

        # A supervisor that is killed takes its processes with it; the next start finds everything.
        second.terminate(signal.SIGKILL)
        third = RunningUp(home, first.port)
        try:
            assert third.key == key and third.chat().status_code == 200
            assert inference_id in [each["id"] for each in third.inference_records()]
        finally:
            assert third.terminate(signal.SIGTERM) == 0
    finally:
        if second.process.poll() is None:
            second.terminate()


def test_configured_database_and_redis_urls_prevent_embedded_servers(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    postgres, valkey = Postgres(elsewhere), Valkey(elsewhere)
    try:
        up = RunningUp(home, free_port(), DATABASE_URL=postgres.start(), REDIS_URL=valkey.start())
        try:
            assert up.chat().status_code == 200
            assert not (home / "run" / "postgres.pid").exists() and not (home / "run" / "valkey.pid").exists()
        finally:
            assert up.terminate() == 0
    finally:
        postgres.stop()
        valkey.stop()
        erase_home(elsewhere)


def test_command_without_a_database_says_what_to_do(home: Path) -> None:
    completed = narthex(clean_environment(home, 1), "keys", "list")
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
    assert (
        completed.returncode == 1
        and "no PG_VERSION" in completed.stderr
        and "mv " in completed.stderr
        and "Traceback" not in completed.stderr
    )


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
    """What an Ollama says of itself."""

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
        usual = [port, 9]
        try:
            offered = local_engines.find_engines(usual, own_ports=(), configured=())
            assert local_engines.find_engines(usual, own_ports={port}, configured=()) == []
            assert local_engines.find_engines(usual, own_ports=(), configured={("localhost", port)}) == []
        finally:
            server.shutdown()
            answering.join()
    assert len(offered) == 1 and offered[0].startswith(f"Ollama answers on http://127.0.0.1:{port}.")
    file = parse_config_file(offered[0].partition("<<'END'\n")[2].removesuffix("END\n"))
    assert file.providers and file.providers["ollama"].base_url == f"http://127.0.0.1:{port}"
    assert file.models and file.models['llama"3:1b'].targets[0].provider == "ollama"
