"""The base of the embedded PostgreSQL and Valkey: one server for one home, in a data folder that only it uses."""

import abc
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.supervisor.machine import orphans
from app.supervisor.machine.os_user import OsUser, hand_over
from app.supervisor.processes.child_process import ChildProcess
from app.supervisor.processes.process import SupervisedProcess

_ORPHAN_TIMEOUT_S = 5.0
_INHERITED_VARIABLES = ("PATH", "LD_LIBRARY_PATH")


def server_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the environment of a server.

    It contains none of the gateway's secrets, which every process of the server's user could read in /proc.
    """
    return {name: environ[name] for name in _INHERITED_VARIABLES if name in environ}


class EmbeddedServer(SupervisedProcess, abc.ABC):
    """start() returns the server's address once it answers; stop() ends it with everything stored.

    A start recovers by itself from any kind of end, kill -9 and a lost machine included. A subclass names `url` and `end_signals`, and
    overrides prepare() where its data folder needs work before the program starts.
    """

    end_signals: Sequence[signal.Signals] = (signal.SIGTERM,)

    def __init__(self, child: ChildProcess, *, home: Path, data: Path, os_user: OsUser | None) -> None:
        super().__init__(child)
        self.home = home
        self._data = data
        self._os_user = os_user

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """The address for DATABASE_URL or REDIS_URL."""

    def start(self) -> str:
        """Returns the server's address once it answers. Raises OperatorError with the end of its log if it does not."""
        self.launch()
        self.wait_until_ready()
        return self.url

    def launch(self) -> None:
        self._end_orphans()
        if self._os_user is not None and self._data.exists():  # it may have been made by servers that ran as `nobody`
            hand_over(self._data, self._os_user)
        self.prepare()
        self.child.start()

    def prepare(self) -> None:
        """Makes the data folder ready for the program. No server runs in it. Raises OperatorError if it cannot be used."""

    def stop(self, timeout_s: float = 30.0) -> None:
        """Ends the server in order. One that does not end in time is killed; the next start recovers from that."""
        self.child.stop(timeout_s)
        self._end_orphans()

    def _end_orphans(self) -> None:
        orphans.end_processes(orphans.pids_with_working_folder(self._data), signals=self.end_signals, timeout_s=_ORPHAN_TIMEOUT_S)
