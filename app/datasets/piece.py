"""A piece: the rows, sources and skips that one transaction adds to a version of a dataset."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from app.datasets.reasons import Skipped
from app.store.datasets import builds as store
from app.store.datasets.builds import DueVersion, NewRow, Skip, Source
from app.store.records.inference_queries import InferencePage

PIECE_S = 1.0  # after which a piece begins no further inference
_PIECE_BYTES = 16 * 1024 * 1024  # of content, likewise


class Piece:
    """The rows, sources and skips that one piece adds to a version."""

    def __init__(self, version: DueVersion) -> None:
        self.version = version
        self.rows: list[NewRow] = []
        self.sources: list[Source] = []
        self.listed_skips: list[Skip] = []
        self._done: set[str] = set()
        self._size_bytes = 0
        self._ends_s = time.monotonic() + PIECE_S

    @property
    def is_full(self) -> bool:
        return bool(self._done) and (self._size_bytes > _PIECE_BYTES or time.monotonic() > self._ends_s)

    @property
    def next_number(self) -> int:
        return self.version.last_row + len(self.rows) + 1

    def add(self, row: NewRow, sources: Sequence[Source]) -> None:
        self.rows.append(row)
        self.sources += sources
        self._done.add(row.inference_id)
        self._size_bytes += row.size_bytes
        self.version.counts.add_row(row.split, row.output, row.faults or {}, row.omitted or ())

    def skip(self, inference_id: str, skipped: Skipped) -> None:
        self._done.add(inference_id)
        self.version.counts.add_skip(skipped.reason)
        if self.version.skips + len(self.listed_skips) < store.MAX_SKIPS:
            self.listed_skips.append(Skip(inference_id, skipped.reason, skipped.detail))

    def has_all(self, taken: Sequence[Mapping[str, Any]]) -> bool:
        return all(row["id"] in self._done for row in taken)

    def advanced(self, page: InferencePage, taken: Sequence[Mapping[str, Any]]) -> DueVersion:
        """The version after this piece: up to the last inference before one that is left for the next piece."""
        left = next((row["id"] for row in taken if row["id"] not in self._done), None)
        examined = [row["id"] for row in page.rows if left is None or row["id"] > left]
        version = self.version
        last = examined[-1] if examined else version.position
        return replace(
            version,
            position=page.next if left is None and page.next is not None else last,
            examined=version.examined + len(examined),
            last_row=version.last_row + len(self.rows),
            rows=version.rows + len(self.rows),
            size_bytes=version.size_bytes + sum(row.size_bytes for row in self.rows),
        )
