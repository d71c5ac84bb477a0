"""A PostgreSQL cluster that is made and migrated once: a copy of it saves a new home initdb and every migration."""

import asyncio
import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from app.store.schema.migrate import migrate
from app.supervisor.machine.home import erase_home, make_home
from app.supervisor.machine.paths import prepare_paths
from app.supervisor.postgres import Postgres
from tests.support.processes.fast_folder import fast_folder
from tests.support.processes.fork_server import run_forked


def place_migrated_cluster(home: Path) -> None:
    """Gives a new home a copy of the cluster. Its first start finds it there, as that of an earlier run."""
    data = prepare_paths(make_home(home)).data
    subprocess.run(["cp", "-a", str(_cluster()), str(data / "postgres")], check=True)


@cache
def _cluster() -> Path:
    home = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
    home.chmod(0o711)
    atexit.register(_remove, home, os.getpid())
    postgres = Postgres(home)
    try:
        run_forked(_migrate, postgres.start())
    finally:
        postgres.stop()
    return prepare_paths(home).data / "postgres"


def _migrate(url: str) -> None:
    asyncio.run(migrate(url))


def _remove(home: Path, owner: int) -> None:
    if os.getpid() == owner:
        erase_home(home)
        shutil.rmtree(home, ignore_errors=True)
