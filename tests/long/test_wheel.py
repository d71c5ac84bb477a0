"""docs/deploy-wheel.md: the wheel, in an environment of its own, started in an empty folder."""

import os
import re
import signal
import subprocess
import sys
import venv
from pathlib import Path

from tests.support.service import PROCESS_TIMEOUT_S, free_port, is_ready
from tests.support.wait_until import block_until

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


def test_wheel_runs_in_an_empty_folder(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ROOT, folder=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name in PAGE
    venv.create(empty / "narthex-venv", with_pip=True)
    (install,) = re.findall(r"^(narthex-venv/bin/pip install .*)$", PAGE, re.MULTILINE)
    run("sh", "-ec", install.replace(f"./{wheel.name}", str(wheel)), folder=empty)
    (start,) = re.findall(r"^(narthex-venv/bin/narthex up)$", PAGE, re.MULTILINE)
    port = free_port()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NARTHEX_", "DATABASE_", "REDIS_", "PYTHON"))}
    environment = {**inherited, "NARTHEX_PORT": str(port)}
    with (tmp_path / "up.log").open("wb") as log:
        up = subprocess.Popen(start.split(), cwd=empty, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:

        def is_up() -> bool:
            assert up.poll() is None, (tmp_path / "up.log").read_text()
            return is_ready(f"http://127.0.0.1:{port}")

        block_until(is_up, PROCESS_TIMEOUT_S)
        narthex = empty / "narthex-venv" / "bin" / "narthex"
        assert run(narthex, "chat", "sandbox", "--max-tokens", "5", "Hello!", folder=empty, environment=environment).strip()
        assert "sandbox" in run(narthex, "models", folder=empty, environment=environment)
    finally:
        up.send_signal(signal.SIGTERM)
        assert up.wait(PROCESS_TIMEOUT_S) == 0
