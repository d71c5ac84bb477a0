"""A child's log: put aside at each start, bounded in size, and read along for what an operator should see at once."""

import re
import shutil
from pathlib import Path

_COMPLAINT = re.compile(r'"level": ?"(error|critical)"|^(ERROR|CRITICAL)|PANIC|^Traceback')
_MOST_AT_ONCE = 5
_LARGEST_BYTES = 32 * 1024 * 1024


class Log:
    """Written by a child in append mode; read here."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._aside = path.with_name(path.name + ".1")
        self._read_to = 0

    def rotate(self) -> None:
        """The log of the last run goes to NAME.log.1; this run's begins empty."""
        if self._path.exists():
            self._path.replace(self._aside)
        self._read_to = 0

    def complaints(self) -> list[str]:
        """What was written since the last call and tells of an error; the first few, with word of the rest."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return []
        if size == self._read_to:
            return []
        found = [line for line in self._news(size) if _COMPLAINT.search(line)]
        if size > _LARGEST_BYTES:
            # The child keeps its file open for appending, so the file is emptied rather than renamed; what it writes in between is lost.
            shutil.copyfile(self._path, self._aside)
            with self._path.open("r+b") as log:
                log.truncate(0)
            self._read_to = 0
        more = len(found) - _MOST_AT_ONCE
        return found[:_MOST_AT_ONCE] + ([f"and {more} lines like these, in {self._path}"] if more > 0 else [])

    def _news(self, size: int) -> list[str]:
        """Whole lines only; at most a megabyte of them, the last."""
        start = max(min(self._read_to, size), size - 1024 * 1024)
        with self._path.open("rb") as log:
            log.seek(start)
            news = log.read(size - start)
        length = news.rfind(b"\n") + 1
        self._read_to = start + length
        return news[:length].decode(errors="replace").splitlines()
