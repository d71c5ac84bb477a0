"""The embedded servers run as a user of their own under root, and no other user's process reaches them."""

import asyncio
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from app.store.postgres.database import connect
from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.home import erase_home
from app.supervisor.machine.os_user import hand_over, server_user
from app.supervisor.postgres import Postgres
from app.supervisor.valkey import Valkey
from tests.support.processes.fast_folder import fast_folder

NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the servers run as the current user")


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="narthex-test-", dir=fast_folder()))
    folder.chmod(0o711)
    yield folder
    erase_home(folder)


def run_sql(url: str, sql: str) -> str:
    async def run() -> str:
        connection = await connect(url)
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    return asyncio.run(run())


def connect_as_nobody(path: Path) -> str:
    """The name of the error, or "connected"."""
    code = (
        "import socket, sys\n"
        "try: socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n"
        "except OSError as fault: print(type(fault).__name__)\n"
        "else: print('connected')"
    )
    completed = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-S", "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        env={"PATH": os.environ["PATH"]},
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    )
    return completed.stdout.strip()


def owners(folder: Path) -> set[int]:
    return {each.lstat().st_uid for each in (folder, *folder.rglob("*"))}


def give_to_nobody(folder: Path) -> None:
    for each in (folder, *folder.rglob("*")):
        os.chown(each, NOBODY, NOBODY, follow_symlinks=False)


def test_no_process_of_nobody_reaches_the_servers_or_their_files(home: Path) -> None:
    with socket.socket(socket.AF_UNIX) as open_to_all, tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        open_to_all.bind(f"{folder}/socket")
        open_to_all.listen()
        Path(folder, "socket").chmod(0o777)
        assert connect_as_nobody(Path(folder, "socket")) == "connected", "the test itself can connect"
    own = server_user()
    assert own is not None and own.uid != NOBODY and own.gid != NOBODY
    postgres, valkey = Postgres(home), Valkey(home)
    try:
        postgres.start()
        valkey.start()
        sockets = Path(valkey.url.removeprefix("unix://")).parent
        assert connect_as_nobody(sockets / "valkey.sock") == "PermissionError"
        assert connect_as_nobody(sockets / ".s.PGSQL.5432") == "PermissionError"
        assert (sockets.stat().st_uid, sockets.stat().st_mode & 0o777) == (own.uid, 0o700)
        for server, name in ((postgres, "postgres"), (valkey, "valkey")):
            data = (home / "data").resolve() / name
            assert owners(data) == {own.uid} and data.stat().st_mode & 0o077 == 0
            status = Path(f"/proc/{server.pid}/status").read_text()
            assert f"Uid:\t{own.uid}\t{own.uid}\t{own.uid}" in status and f"Gid:\t{own.gid}\t{own.gid}\t{own.gid}" in status
        assert not (home / "data" / "postgres.half").exists()
        assert run_sql(postgres.url, "SELECT 'ready'") == "ready"
    finally:
        postgres.stop()
        valkey.stop()


def test_home_made_by_servers_of_nobody_is_taken_over_with_its_data(home: Path) -> None:
    postgres, valkey = Postgres(home), Valkey(home)
    try:
        postgres.start()
        valkey.start()
        run_sql(postgres.url, "CREATE TABLE kept AS SELECT 'a row' AS value")
        redis.Redis.from_url(valkey.url).set("kept", "a key")  # pyright: ignore[reportUnknownMemberType]
    finally:
        postgres.stop()
        valkey.stop()
    data, sockets = (home / "data").resolve(), Path(valkey.url.removeprefix("unix://")).parent
    for each in (data / "postgres", data / "valkey", sockets):  # as after kill -9: with the folder of sockets
        give_to_nobody(each)

    postgres, valkey = Postgres(home), Valkey(home)
    try:
        postgres.start()
        valkey.start()
        assert run_sql(postgres.url, "SELECT value FROM kept") == "a row"
        assert redis.Redis.from_url(valkey.url).get("kept") == b"a key"  # pyright: ignore[reportUnknownMemberType]
        assert connect_as_nobody(sockets / "valkey.sock") == "PermissionError"
    finally:
        postgres.stop()
        valkey.stop()
    own = server_user()
    assert own is not None and owners(data / "postgres") == owners(data / "valkey") == {own.uid}


def test_files_elsewhere_do_not_change_hands_with_a_folder(home: Path) -> None:
    own = server_user()
    assert own is not None
    elsewhere, folder = home / "elsewhere", home / "folder"
    folder.mkdir()
    elsewhere.write_text("root's")
    (folder / "link").symlink_to(elsewhere)
    give_to_nobody(folder)
    os.chown(elsewhere, 0, 0)
    hand_over(folder, own)
    assert elsewhere.stat().st_uid == 0 and (folder / "link").lstat().st_uid == own.uid

    give_to_nobody(folder)
    os.chown(elsewhere, 0, 0)
    (folder / "second-name").hardlink_to(elsewhere)
    with pytest.raises(OperatorError, match="second-name has another name elsewhere"):
        hand_over(folder, own)
    assert elsewhere.stat().st_uid == 0 and folder.stat().st_uid == 0, "an interrupted hand-over is repeated, and the folder is closed"
