"""Counts of exported telemetry. The writer reports them, and /metrics shows them.

This module imports nothing of the export itself.
"""

from msgspec import Struct


class ExportCounts(Struct):
    """The counts since the start of this process.

    `last_error` is the error of the last request to the collector, or None if the collector accepted it.
    """

    exported_spans: int = 0
    dropped_spans: int = 0
    dropped_metrics: int = 0
    last_error: str | None = None
