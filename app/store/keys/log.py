"""A worker's cached keys on disk, for when Postgres is unavailable: a log that is appended to, and rewritten now and then."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from app.domain.callers import Caller

log = logging.getLogger(__name__)

_SAVE_AFTER_S = 0.2
_AFTER_FAILURE_S = 5.0
_MIN_REWRITE_LINES = 1000  # it is rewritten once it has twice the lines of the last rewrite, and this many more

# A line: a key's hash with its caller, or with null once it was invalidated; or the version of the keys up to which the log is true.
_line_decoder: msgspec.json.Decoder[tuple[str, Caller | None] | int] = msgspec.json.Decoder(tuple[str, Caller | None] | int)


class LoggedKeys(Struct, frozen=True):
    """The content of a log."""

    callers: Mapping[bytes, Caller]
    version: int | None  # None: it is unknown up to which version of the keys it is true


class KeyLog:
    """Writes changes to disk a moment after they happen, in order. `current_keys` returns the cached keys, for a rewrite.

    A killed process loses the last changes, and the version with them, so it queries what changed since the version before.
    """

    def __init__(self, path: Path, current_keys: Callable[[], LoggedKeys]) -> None:
        self._path = path
        self._current_keys = current_keys
        self._lines: list[bytes] = []
        self._rewritten_lines = 0  # lines of the last rewrite
        self._appended_lines = 0
        self._rewrite_requested = True  # at first: an earlier process may have been killed within a line
        self._saving: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def add(self, hash: bytes, caller: Caller | None) -> None:
        """Log a key's caller. None: the key was invalidated."""
        self._lines.append(msgspec.json.encode((hash.hex(), caller)))
        self._save_soon()

    def add_version(self, version: int) -> None:
        self._lines.append(b"%d" % version)
        self._save_soon()

    def request_rewrite(self) -> None:
        self._rewrite_requested = True
        self._save_soon()

    async def close(self) -> None:
        """Write what is not written yet."""
        self._closing.set()
        if self._saving is not None:
            await self._saving

    def _save_soon(self) -> None:
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._save())

    async def _save(self) -> None:
        pause_s = _SAVE_AFTER_S
        while self._lines or self._rewrite_requested:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._closing.wait()
            try:
                written = await asyncio.to_thread(self._write, self._take_pending())
            except Exception:  # such as no thread to be had: the next try writes everything
                log.exception("the cached keys could not be written to disk")
                written = False
            if not written:
                self._rewrite_requested = True
                pause_s = _AFTER_FAILURE_S
                if self._closing.is_set():
                    return

    def _take_pending(self) -> list[bytes] | LoggedKeys:
        lines, self._lines = self._lines, []
        if not self._rewrite_requested and self._appended_lines + len(lines) <= self._rewritten_lines + _MIN_REWRITE_LINES:
            return lines
        self._rewrite_requested = False
        return self._current_keys()

    def _write(self, pending: list[bytes] | LoggedKeys) -> bool:
        """Write to disk, on a thread; returns False if that failed."""
        try:
            if isinstance(pending, LoggedKeys):
                self._rewrite(pending)
            else:
                with self._path.open("ab") as file:
                    file.write(b"".join(line + b"\n" for line in pending))
                self._appended_lines += len(pending)
        except OSError as fault:  # a full disk is no reason to refuse a valid key
            log.warning("the cached keys could not be written to disk", extra={"fault": repr(fault)})
            return False
        return True

    def _rewrite(self, logged: LoggedKeys) -> None:
        draft = self._path.with_suffix(".new")
        with draft.open("wb") as file:
            draft.chmod(0o600)
            for hash, caller in logged.callers.items():
                file.write(msgspec.json.encode((hash.hex(), caller)) + b"\n")
            if logged.version is not None:
                file.write(b"%d\n" % logged.version)
        draft.replace(self._path)
        self._rewritten_lines, self._appended_lines = len(logged.callers), 0


def read_log(path: Path) -> LoggedKeys:
    """The content of a log; empty if there is none that can be read."""
    callers: dict[bytes, Caller] = {}
    version: int | None = None
    try:
        lines = path.read_bytes().split(b"\n")
        for line in lines[:-1]:  # what follows the last newline was being written when its process ended
            match _line_decoder.decode(line):
                case int(logged_version):
                    version = logged_version
                case (hash, None):
                    callers.pop(bytes.fromhex(hash), None)
                case (hash, caller):
                    callers[bytes.fromhex(hash)] = caller
    except FileNotFoundError:
        return LoggedKeys({}, None)
    except (OSError, ValueError) as fault:  # an unreadable line may have been one that invalidated a key
        log.warning("the keys on disk cannot be read, so they are ignored", extra={"path": str(path), "fault": str(fault)})
        return LoggedKeys({}, None)
    return LoggedKeys(callers, version)


def log_path(folder: Path, worker: str) -> Path:
    return folder / f"keys-{worker}.log"


def remove_stale_logs(folder: Path, workers: int) -> None:
    """Remove the logs of workers beyond the configured number: nobody would remove a revoked key from them."""
    for path in folder.glob("keys-gateway-*"):
        number = path.stem.rpartition("-")[2]
        # .json: the format of an earlier version
        if path.suffix == ".json" or (number.isdigit() and int(number) >= workers):
            path.unlink(missing_ok=True)
