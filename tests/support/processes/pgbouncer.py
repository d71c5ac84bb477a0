"""A real PgBouncer in transaction mode, before a PostgreSQL that listens on a Unix socket. `make test-deploy` fetches it."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.processes.fast_folder import fast_folder
from tests.support.processes.service import free_port

# Debian's package, extracted without root: tests/deploy/fetch_pgbouncer.sh.
FETCHED = Path(__file__).parents[3] / ".venv-deploy" / "pgbouncer"
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class PgBouncer:
    """PgBouncer in front of PostgreSQL."""

    database_url: str  # the given database through it
    pool_size: int  # as many sessions of PostgreSQL its clients share
    log: Path


@contextlib.contextmanager
def pgbouncer_to(database_url: str, *, pool_size: int) -> Generator[PgBouncer]:
    """Runs PgBouncer as Debian configures it, but for its address, who may come, and the pool.

    The test is skipped where there is no PgBouncer.
    """
    files = _program_and_libraries()
    sockets = database_url.partition("host=")[2].partition("&")[0]
    name = database_url.partition("?")[0].rpartition("/")[2]
    folder, port = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder())), free_port()
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n{name} = host={sockets} user=narthex\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = {pool_size}\nmax_client_conn = 500\n"
    )
    for file in files:
        shutil.copy(file, folder)
    # Under root the server runs as a user of its own, who alone may open its socket; and PgBouncer refuses to run as root.
    user = os.stat(sockets).st_uid if os.geteuid() == 0 else None
    if user is not None:
        for path in (folder, *folder.iterdir()):
            os.chown(path, user, user)
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(folder / files[0].name), str(config)],
            stdout=output,
            stderr=output,
            env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
    try:
        _wait_until_up(process, log)
        yield PgBouncer(f"postgresql://narthex@127.0.0.1:{port}/{name}?sslmode=disable", pool_size, log)
    finally:
        process.terminate()
        process.wait(_STOP_TIMEOUT_S)
        shutil.rmtree(folder, ignore_errors=True)


def _program_and_libraries() -> list[Path]:
    program = FETCHED / "usr" / "sbin" / "pgbouncer"
    if program.exists():
        return [program, *(path for path in FETCHED.rglob("lib*.so*"))]
    installed = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if installed is None:
        pytest.skip("PgBouncer is not installed: make test-deploy fetches it where there is apt-get, else apt install pgbouncer")
    return [Path(installed)]


def _wait_until_up(process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while "process up" not in log.read_text():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)
