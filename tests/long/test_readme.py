"""The README, followed to the letter in an empty folder: what it says to type is typed, and does what it says."""

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

from app.supervisor.paths import erase_home
from tests.support.service import is_ready

ROOT = Path(__file__).parents[2]
INSTALL_S = 400


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git has of this tree, its uncommitted changes included, and nothing else."""
    folder = tmp_path_factory.mktemp("somewhere") / "narthex"
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
    """A stranger's: nothing of this checkout's environment is on the path. The port alone is chosen, as 8787 may be taken."""
    kept = {name: os.environ[name] for name in os.environ if not name.startswith(("NARTHEX", "VIRTUAL_ENV", "PYTHON", "DATABASE", "REDIS"))}
    return {**kept, "NARTHEX_PORT": str(port)}


@pytest.fixture(scope="module")
def up(clone: Path, port: int, environment: dict[str, str]) -> Generator[subprocess.Popen[bytes]]:
    with (clone / "up.log").open("wb") as log:
        process = subprocess.Popen(["make", "up"], cwd=clone, env=environment, stdout=log, stderr=log, start_new_session=True)
    until = time.monotonic() + INSTALL_S
    while not is_ready(f"http://127.0.0.1:{port}"):
        assert process.poll() is None and time.monotonic() < until, (clone / "up.log").read_text()
        time.sleep(0.2)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)
    erase_home(clone / ".narthex")  # its data may lie outside: the database's user cannot reach a folder of pytest's under root


def code_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def run_command(command: str, clone: Path, environment: dict[str, str], answer: str = "") -> str:
    """What a shell in the folder prints."""
    port = environment["NARTHEX_PORT"]
    process = subprocess.run(
        ["sh", "-ec", command.replace("8787", port)],
        cwd=clone,
        env=environment,
        input=answer,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, f"{command}\n{process.stdout}\n{process.stderr}"
    return process.stdout + process.stderr


def test_readme_names_make_up_and_make_test():
    assert "make up" in code_blocks("sh")[0] and "make test" in code_blocks("sh")[0]


def test_readme_shell_commands_work(up: subprocess.Popen[bytes], clone: Path, environment: dict[str, str]):
    start, chat, configure, host, keys, limit, inspect = code_blocks("sh")
    assert start and '"object":"chat.completion"' in run_command(chat, clone, environment)
    (clone / "engines.toml").write_text(code_blocks("toml")[0])
    for line in configure.splitlines():
        assert run_command(line, clone, environment, answer="y\n")
    assert "qwen3-4b" in run_command(".venv/bin/narthex export", clone, environment)
    (clone / "hosted.toml").write_text(code_blocks("toml")[1])
    store, apply, try_it = host.splitlines()
    assert "claude is stored" in run_command(store, clone, environment, answer="sk-ant-invented\n")
    assert "Applied" in run_command(apply, clone, environment, answer="y\n")
    without_network = {**environment, "HTTPS_PROXY": "http://127.0.0.1:9"}  # no test asks a provider
    assert "not reached by the proxy" in run_command(f"! {try_it}", clone, without_network)
    create, legal, listing, revoke = keys.splitlines()
    created_keys = run_command(create, clone, environment) + run_command(legal, clone, environment)
    assert len(set(re.findall(r"nx-[0-9a-f]{12}-\S{20,}", created_keys))) == 2
    assert "search" in run_command(listing, clone, environment)
    (clone / "limits.toml").write_text(code_blocks("toml")[2])
    apply, left, used = limit.splitlines()
    assert "Applied" in run_command(apply, clone, environment, answer="y\n")
    assert "per-key tokens" in run_command(left, clone, environment) and "monthly budget" in run_command(left, clone, environment)
    assert '"object":"usage"' in run_command(used, clone, environment)
    prefix = re.findall(r"nx-[0-9a-f]{12}", created_keys)[0]
    assert run_command(re.sub(r"nx-[0-9a-f]+", prefix, revoke), clone, environment)
    time.sleep(1)
    assert '"model":"sandbox"' in run_command(inspect, clone, environment)


def test_readme_python_example_prints_output(up: subprocess.Popen[bytes], clone: Path, environment: dict[str, str]):
    (clone / "example.py").write_text(code_blocks("python")[0].replace("8787", environment["NARTHEX_PORT"]))
    assert run_command(".venv/bin/python example.py", clone, environment)


def test_ctrl_c_stops_the_service_and_a_restart_within_30_s_keeps_the_data(
    up: subprocess.Popen[bytes], clone: Path, port: int, environment: dict[str, str]
):
    key = (clone / ".narthex" / "first-key").read_text()
    os.killpg(up.pid, signal.SIGINT)
    assert up.wait(60) is not None and not is_ready(f"http://127.0.0.1:{port}")
    began = time.monotonic()
    again = subprocess.Popen(
        ["make", "up"], cwd=clone, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while not is_ready(f"http://127.0.0.1:{port}"):
        assert time.monotonic() < began + 30
        time.sleep(0.1)
    assert (clone / ".narthex" / "first-key").read_text() == key
    os.killpg(again.pid, signal.SIGINT)
    again.wait(60)
