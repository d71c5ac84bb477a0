"""The README in an empty folder: its commands are typed as they are, and do what it says."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from app.supervisor.machine.home import erase_home
from tests.support.processes.service import is_ready
from tests.support.processes.wait_until import block_until

ROOT = Path(__file__).parents[2]
INSTALL_TIMEOUT_S = 900


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that git tracks or would track, with uncommitted changes."""
    folder = tmp_path_factory.mktemp("empty") / "narthex"
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in names.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def environment(port: int) -> dict[str, str]:
    """The environment without the virtual environment and settings of this checkout.

    Only the port is set, because 8787 may be taken.
    """
    inherited = {
        name: os.environ[name] for name in os.environ if not name.startswith(("NARTHEX", "VIRTUAL_ENV", "PYTHON", "DATABASE", "REDIS"))
    }
    return {**inherited, "NARTHEX_PORT": str(port)}


@pytest.fixture(scope="module")
def up(clone: Path, port: int, environment: dict[str, str]) -> Generator[subprocess.Popen[bytes]]:
    with (clone / "up.log").open("wb") as log:
        process = subprocess.Popen(["make", "up"], cwd=clone, env=environment, stdout=log, stderr=log, start_new_session=True)
    until = time.monotonic() + INSTALL_TIMEOUT_S
    while not is_ready(f"http://127.0.0.1:{port}"):
        assert process.poll() is None and time.monotonic() < until, (clone / "up.log").read_text()
        time.sleep(0.2)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(300)
    erase_home(clone / ".narthex")  # its data may be outside: as root, the database runs as a user who cannot read pytest's folders


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def run_command(command: str, clone: Path, environment: dict[str, str], answer: str = "") -> str:
    """Runs a command in a shell in the folder; returns its output."""
    port = environment["NARTHEX_PORT"]
    process = subprocess.run(
        ["sh", "-ec", command.replace("8787", port)],
        cwd=clone,
        env=environment,
        input=answer,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert process.returncode == 0, f"{command}\n{process.stdout}\n{process.stderr}"
    return process.stdout + process.stderr


def test_readme_names_make_up_and_make_test():
    assert "make up" in code_blocks("sh")[0] and "make test" in code_blocks("sh")[0]


def test_readme_shell_commands_work_and_are_taken_back(up: subprocess.Popen[bytes], clone: Path, environment: dict[str, str]):
    start, chat, configure, host, keys, limit, see = code_blocks("sh")
    assert start and run_command(chat, clone, environment).strip()
    (clone / "engines.toml").write_text(code_blocks("toml")[0])
    apply, export, take_back = configure.splitlines()
    assert "Applied" in run_command(apply, clone, environment, answer="y\n")
    assert "qwen3-4b" in run_command(export, clone, environment)
    assert "qwen3-4b" in run_command(take_back, clone, environment)
    (clone / "hosted.toml").write_text(code_blocks("toml")[1])
    store, apply, try_it, take_back, forget = host.splitlines()
    assert "claude is stored" in run_command(store, clone, environment, answer="sk-ant-invented\n")
    assert "Applied" in run_command(apply, clone, environment, answer="y\n")
    without_network = {**environment, "HTTPS_PROXY": "http://127.0.0.1:9"}  # no test may reach a provider
    assert "The proxy could not reach" in run_command(f"! {try_it}", clone, without_network)
    assert run_command(take_back, clone, environment) and run_command(forget, clone, environment)
    create, legal, listing, revoke = keys.splitlines()
    created_keys = run_command(create, clone, environment) + run_command(legal, clone, environment)
    assert len(set(re.findall(r"nx-[0-9a-f]{12}-\S{20,}", created_keys))) == 2
    assert "search" in run_command(listing, clone, environment)
    for prefix in set(re.findall(r"nx-[0-9a-f]{12}", created_keys)):
        assert "Revoked" in run_command(re.sub(r"nx-[0-9a-f]+", prefix, revoke), clone, environment)
    (clone / "limits.toml").write_text(code_blocks("toml")[2])
    apply, chat, budgets, take_back = limit.splitlines()
    assert "Applied" in run_command(apply, clone, environment, answer="y\n")
    assert run_command(chat, clone, environment) and "monthly budget" in run_command(budgets, clone, environment)
    assert run_command(take_back, clone, environment)
    inferences, analytics, status, doctor = see.splitlines()
    block_until(lambda: "sandbox" in run_command(inferences, clone, environment))
    assert run_command(analytics, clone, environment) and run_command(status, clone, environment)
    assert run_command(doctor, clone, environment), "and it finds nothing wrong, or its status would not be 0"
    left = run_command(".venv/bin/narthex export", clone, environment)
    assert "[models.sandbox]" in left and not re.search(r"qwen3-4b|claude|\[\[limits\]\]|\[\[prices\]\]", left), "teams alone stay"


def test_readme_python_example_prints_output(up: subprocess.Popen[bytes], clone: Path, environment: dict[str, str]):
    (clone / "example.py").write_text(code_blocks("python")[0].replace("8787", environment["NARTHEX_PORT"]))
    assert run_command(".venv/bin/python example.py", clone, environment)


def test_ctrl_c_stops_the_service_and_a_restart_within_a_minute_keeps_the_data(
    up: subprocess.Popen[bytes], clone: Path, port: int, environment: dict[str, str]
):
    key = (clone / ".narthex" / "first-key").read_text()
    os.killpg(up.pid, signal.SIGINT)
    assert up.wait(300) is not None and not is_ready(f"http://127.0.0.1:{port}")
    began = time.monotonic()
    restarted = subprocess.Popen(
        ["make", "up"], cwd=clone, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while not is_ready(f"http://127.0.0.1:{port}"):
        assert time.monotonic() < began + 60
        time.sleep(0.1)
    assert (clone / ".narthex" / "first-key").read_text() == key
    os.killpg(restarted.pid, signal.SIGINT)
    restarted.wait(300)
