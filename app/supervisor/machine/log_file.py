"""A child's log: rotated at each start, bounded in size, and watched for errors that an operator should see at once."""

import re
import shutil
from pathlib import Path

_ERROR_LINE = re.compile(r'"level": ?"(error|critical)"|^(ERROR|CRITICAL)|PANIC|^Traceback')
_MAX_LINES = 5
_MAX_LOG_BYTES = 32 * 1024 * 1024


class LogFile:
    """Written by the child in append mode, read here."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._previous_path = path.with_name(path.name + ".1")
        self._offset = 0

    def rotate(self) -> None:
        """Moves the log of the last run to NAME.log.1; this run's starts empty."""
        if self._path.exists():
            self._path.replace(self._previous_path)
        self._offset = 0

    def new_error_lines(self) -> list[str]:
        """The error lines written since the last call: the first few, and a line that counts the others."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return []
        if size == self._offset:
            return []
        error_lines = [line for line in self._read_new_lines(size) if _ERROR_LINE.search(line)]
        if size > _MAX_LOG_BYTES:
            # Truncated rather than renamed, because the child keeps the file open; what it writes in between is lost.
            shutil.copyfile(self._path, self._previous_path)
            with self._path.open("r+b") as log:
                log.truncate(0)
            self._offset = 0
        more = len(error_lines) - _MAX_LINES
        return error_lines[:_MAX_LINES] + ([f"and {more} lines like these, in {self._path}"] if more > 0 else [])

    def _read_new_lines(self, size: int) -> list[str]:
        """Returns complete lines only, from at most the last megabyte."""
        start = max(min(self._offset, size), size - 1024 * 1024)
        with self._path.open("rb") as log:
            log.seek(start)
            content = log.read(size - start)
        length = content.rfind(b"\n") + 1
        self._offset = start + length
        return content[:length].decode(errors="replace").splitlines()
