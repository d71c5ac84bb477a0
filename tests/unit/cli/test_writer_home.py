"""The home of `narthex writer`: it may be the first to make it, and says what is wrong with one that it cannot use."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from app.cli import main
from tests.support.processes.wait_until import block_until

NOWHERE = "postgresql://nobody@127.0.0.1:9/none"


def test_writer_that_starts_first_makes_a_private_home(tmp_path: Path):
    home = tmp_path / "volume" / "home"
    environment = {**os.environ, "NARTHEX_HOME": str(home), "DATABASE_URL": NOWHERE}
    command = [sys.executable, "-P", "-m", "app.cli", "writer"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writer:
        try:
            block_until(lambda: (home / "spool").is_dir())
            assert home.stat().st_mode & 0o066 == 0
        finally:
            writer.send_signal(signal.SIGKILL)


def test_writer_refuses_a_home_that_is_no_folder(tmp_path: Path):
    (tmp_path / "home").write_text("")
    done = CliRunner().invoke(main, ["writer"], env={"NARTHEX_HOME": str(tmp_path / "home"), "DATABASE_URL": NOWHERE})
    assert done.exit_code == 1 and "is not a folder" in done.stderr and "NARTHEX_HOME" in done.stderr
