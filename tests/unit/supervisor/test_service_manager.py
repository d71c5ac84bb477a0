"""The supervisor and systemd: it says that it is ready, and that it stops."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = "from app.supervisor.supervisor import Supervisor; Supervisor(print).run()"
TIMEOUT_S = 60


@pytest.mark.parametrize("is_abstract", [False, True])
def test_service_manager_hears_of_readiness_and_of_the_stop(tmp_path: Path, is_abstract: bool):
    name = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name if is_abstract else name)
        manager.settimeout(TIMEOUT_S)
        address = f"@{name}" if is_abstract else name
        with subprocess.Popen([sys.executable, "-c", SCRIPT], env={"NOTIFY_SOCKET": address}, cwd=Path.cwd()) as process:
            assert manager.recv(100) == b"READY=1"
            process.send_signal(signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"
            assert process.wait(TIMEOUT_S) == 0
