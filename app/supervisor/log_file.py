"""A child's log: put aside at each start, bounded in size, and read along for what an operator should see at once."""

import re
import shutil
from pathlib import Path

_ERROR_LINE = re.compile(r'"level": ?"(error|critical)"|^(ERROR|CRITICAL)|PANIC|^Traceback')
_MAX_LINES = 5
_MAX_LOG_BYTES = 32 * 1024 * 1024


class LogFile:
    """Written by a child in append mode; read here."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._previous_path = path.with_name(path.name + ".1")
        self._offset = 0

    def rotate(self) -> None:
        """The log of the last run goes to NAME.log.1; this run's begins empty."""
        if self._path.exists():
            self._path.replace(self._previous_path)
        self._offset = 0

    def new_error_lines(self) -> list[str]:
        """What was written since the last call and tells of an error; the first few, with word of the rest."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return []
        if size == self._offset:
            return []
        error_lines = [line for line in self._read_new_lines(size) if _ERROR_LINE.search(line)]
        if size > _MAX_LOG_BYTES:
            # The child keeps its file open for appending, so the file is emptied rather than renamed; what it writes in between is lost.
            shutil.copyfile(self._path, self._previous_path)
            with self._path.open("r+b") as log:
                log.truncate(0)
            self._offset = 0
        more = len(error_lines) - _MAX_LINES
        return error_lines[:_MAX_LINES] + ([f"and {more} lines like these, in {self._path}"] if more > 0 else [])

    def _read_new_lines(self, size: int) -> list[str]:
        """Whole lines only; at most a megabyte of them, the last."""
        start = max(min(self._offset, size), size - 1024 * 1024)
        with self._path.open("rb") as log:
            log.seek(start)
            content = log.read(size - start)
        length = content.rfind(b"\n") + 1
        self._offset = start + length
        return content[:length].decode(errors="replace").splitlines()
