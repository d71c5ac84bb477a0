"""GET /metrics, and the task that keeps the metrics of this process current between scrapes."""

import asyncio
import contextlib

from litestar import Response, Router, get

from app import telemetry
from app.gateway.serve import Gateway
from app.recording.writer_status import read_status


def routes(gateway: Gateway) -> Router:
    @get("/metrics")
    async def metrics() -> Response[bytes]:
        _update_spool_metrics(gateway)
        return Response(gateway.telemetry.render(), media_type=telemetry.CONTENT_TYPE)

    return Router("/", route_handlers=[metrics])


async def keep_metrics_current(gateway: Gateway) -> None:
    """Flush the metrics of this process every second, and when it ends: a scrape of another worker reports them too."""
    try:
        while True:
            await asyncio.sleep(1)
            gateway.telemetry.flush()
            # With no file descriptor left the spool cannot be read; ended requests are counted all the same, or they would pile up.
            with contextlib.suppress(OSError):
                _update_spool_metrics(gateway)
    finally:
        gateway.telemetry.flush()


def _update_spool_metrics(gateway: Gateway) -> None:
    spool = gateway.spool.stats()
    writer = read_status(gateway.settings.home)
    gateway.telemetry.set_spool(
        size_bytes=spool.size_bytes,
        oldest_s=spool.oldest_s,
        lost=spool.lost_records,
        lost_content=spool.lost_content,
        quarantined=writer.quarantined if writer else 0,
    )
