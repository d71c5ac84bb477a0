"""What became of exported telemetry: the writer reports it, and /metrics shows it. It imports nothing of the export itself."""

from msgspec import Struct


class ExportCounts(Struct):
    """Since the start of this process. `last_error`: of the last request to the collector; None: it was taken."""

    exported_spans: int = 0
    dropped_spans: int = 0
    dropped_metrics: int = 0
    last_error: str | None = None
