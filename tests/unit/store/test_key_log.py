"""The log of a worker's cached keys: reading it returns what was cached, or an earlier state of it."""

import asyncio
import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.callers import Caller
from app.store.keys.log import KeyLog, LoggedKeys, read_log, remove_stale_logs

HASHES = [hashlib.sha256(bytes([number])).digest() for number in range(6)]
CALLERS = st.builds(
    Caller,
    key_id=st.just("k"),
    team_id=st.sampled_from("ab"),
    team=st.text(max_size=5),
    content=st.sampled_from(["full", "none"]),
    models=st.none() | st.just(("m*",)),
    expires_s=st.none() | st.floats(0, 1e10),
    drop=st.sampled_from([(), ("seed",), "all"]),
)
# Add a caller, invalidate a key, reach a version; None: a pause in which the log may be written.
STEPS = st.lists(st.tuples(st.sampled_from(HASHES), CALLERS | st.none()) | st.integers(1, 99) | st.none(), max_size=30)


class FakeKeyIndex:
    """Changes its callers and logs each change, as the real index does."""

    def __init__(self, path: Path) -> None:
        self.callers: dict[bytes, Caller] = {}
        self.version: int | None = None
        self.log = KeyLog(path, self.now)

    def now(self) -> LoggedKeys:
        return LoggedKeys(dict(self.callers), self.version)

    def apply(self, step: tuple[bytes, Caller | None] | int) -> None:
        match step:
            case int(version):
                self.version = version
                self.log.add_version(version)
            case (hash, None):
                self.callers.pop(hash, None)
                self.log.add(hash, None)
            case (hash, caller):
                self.callers[hash] = caller
                self.log.add(hash, caller)


@pytest.fixture(autouse=True)
def write_without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.keys.log._SAVE_AFTER_S", 0)
    monkeypatch.setattr("app.store.keys.log._MIN_REWRITE_LINES", 3)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_key_log_reads_back_what_was_logged(steps: list[tuple[bytes, Caller | None] | int | None]):
    async def write_log(path: Path) -> LoggedKeys:
        index = FakeKeyIndex(path)
        for step in steps:
            if step is None:
                await asyncio.sleep(0.003)
            else:
                index.apply(step)
        await index.log.close()
        return index.now()

    with TemporaryDirectory() as folder:
        path = Path(folder) / "keys-w.log"
        assert read_log(path) == LoggedKeys({}, None)
        now = asyncio.run(write_log(path))
        assert read_log(path) == now
        assert not path.exists() or path.stat().st_mode & 0o777 == 0o600


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(HASHES), CALLERS | st.none()) | st.integers(1, 99), min_size=1, max_size=8), st.floats(0, 1))
def test_torn_last_line_of_the_key_log_is_ignored(steps: list[tuple[bytes, Caller | None] | int], part: float):
    """Cuts the log to `part` of it; how long it is depends on when it was rewritten."""

    async def write_log(path: Path) -> None:
        index = FakeKeyIndex(path)
        index.log.request_rewrite()
        await asyncio.sleep(0.003)
        for step in steps:
            index.apply(step)
        await index.log.close()

    with TemporaryDirectory() as folder:
        path = Path(folder) / "keys-w.log"
        asyncio.run(write_log(path))
        content = path.read_bytes()
        lines = content.splitlines(keepends=True)
        cut = int(part * len(content))
        path.write_bytes(content[:cut])
        torn = read_log(path)
        path.write_bytes(b"".join(lines[: content[:cut].count(b"\n")]))
        assert torn == read_log(path)


def test_damaged_key_log_is_discarded_entirely(tmp_path: Path):
    path = tmp_path / "keys-w.log"
    path.write_bytes(b'["%s",nu\n7\n' % HASHES[0].hex().encode())
    assert read_log(path) == LoggedKeys({}, None)


def test_key_log_stays_small_under_frequent_changes(tmp_path: Path):
    path = tmp_path / "keys-w.log"
    sizes: list[int] = []

    async def write_log() -> None:
        index = FakeKeyIndex(path)
        for number in range(300):
            index.apply((HASHES[number % 6], Caller("k", "t", "team", "full")))
            index.apply(number)
            if number % 5 == 0:
                await asyncio.sleep(0.002)
                sizes.append(path.stat().st_size if path.exists() else 0)
        await index.log.close()

    asyncio.run(write_log())
    sizes.append(path.stat().st_size)
    assert 0 < max(sizes) < 12_000


def test_key_log_is_written_once_the_disk_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr("app.store.keys.log._AFTER_FAILURE_S", 0.01)
    folder = tmp_path / "not yet"

    async def write_log() -> LoggedKeys:
        index = FakeKeyIndex(folder / "keys-w.log")
        index.apply((HASHES[0], Caller("k", "t", "team", "full")))
        index.apply(4)
        async with asyncio.timeout(30):
            while "could not be written" not in caplog.text:
                await asyncio.sleep(0.005)
            folder.mkdir()
            while not (folder / "keys-w.log").exists():
                await asyncio.sleep(0.005)
        await index.log.close()
        return index.now()

    assert asyncio.run(write_log()) == read_log(folder / "keys-w.log")


def test_key_files_of_removed_workers_are_deleted(tmp_path: Path):
    for name in ("keys-gateway-0.log", "keys-gateway-1.log", "keys-gateway-2.log", "keys-gateway-0.json", "snapshot.json"):
        (tmp_path / name).touch()
    remove_stale_logs(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == {"keys-gateway-0.log", "keys-gateway-1.log", "snapshot.json"}
