"""docs/deploy-wheel.md: the wheel, in an environment of its own, started in an empty folder."""

import os
import re
import signal
import subprocess
import sys
import venv
from pathlib import Path

import httpx2
import pytest

from tests.support.processes.service import PROCESS_TIMEOUT_S, REQUEST_TIMEOUT_S, free_port, is_ready
from tests.support.processes.wait_until import block_until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploy-wheel.md").read_text("utf-8")
INSTALL_TIMEOUT_S = 900


def run(*command: str | Path, folder: Path, environment: dict[str, str] | None = None) -> str:
    options = {**os.environ, **(environment or {})}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=options, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT, folder=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    venv.create(folder / "narthex-venv", with_pip=True)
    return folder


def test_wheel_runs_in_an_empty_folder(wheel: Path, empty: Path) -> None:
    assert wheel.name in PAGE
    (install,) = re.findall(r"^(narthex-venv/bin/pip install .*)$", PAGE, re.MULTILINE)
    run("sh", "-ec", install.replace(f"./{wheel.name}", str(wheel)), folder=empty)
    check_started(empty)


def test_wheel_with_locked_packages_runs_without_what_makes_examples_for_litestar(wheel: Path, empty: Path) -> None:
    """The locks leave out polyfactory and faker, as pyproject.toml says."""
    pip = empty / "narthex-venv" / "bin" / "pip"
    run(pip, "install", "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", ROOT / "requirements.lock", folder=empty)
    run(pip, "install", "--no-deps", "--no-index", wheel, folder=empty)
    installed = {each.name.partition("-")[0].lower() for each in (empty / "narthex-venv").glob("lib/python*/site-packages/*.dist-info")}
    assert "litestar" in installed and installed.isdisjoint({"polyfactory", "faker"})
    check_started(empty)


def check_started(empty: Path) -> None:
    """Starts everything, writes the OpenAPI document, and asks the sandbox something."""
    (start,) = re.findall(r"^(narthex-venv/bin/narthex up)$", PAGE, re.MULTILINE)
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NARTHEX_", "DATABASE_", "REDIS_", "PYTHON"))}
    environment = {**inherited, "NARTHEX_PORT": str(port)}
    with (empty.parent / "up.log").open("wb") as log:
        up = subprocess.Popen(start.split(), cwd=empty, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:

        def is_up() -> bool:
            assert up.poll() is None, (empty.parent / "up.log").read_text()
            return is_ready(f"http://127.0.0.1:{port}")

        block_until(is_up, PROCESS_TIMEOUT_S)
        document = httpx2.get(f"http://127.0.0.1:{port}/openapi.json", timeout=REQUEST_TIMEOUT_S).raise_for_status().json()
        assert document["openapi"].startswith("3.1") and "/v1/chat/completions" in document["paths"]
        narthex = empty / "narthex-venv" / "bin" / "narthex"
        assert run(narthex, "chat", "sandbox", "--max-tokens", "5", "Hello!", folder=empty, environment=environment).strip()
        assert "sandbox" in run(narthex, "models", folder=empty, environment=environment)
    finally:
        up.send_signal(signal.SIGTERM)
        assert up.wait(PROCESS_TIMEOUT_S) == 0
