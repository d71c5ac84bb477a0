"""For those who run it: /health/live, /health/ready, /metrics, and the reference of the API at /docs."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from litestar import HttpMethod, Response, Router, get, route
from markdown_it import MarkdownIt

from app import telemetry
from app.gateway.serve import Gateway
from app.recording.writer_status import read_status

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Narthex: the API</title><style>
body{font:16px/1.55 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1c1c1c}
code,pre{font:14px/1.45 ui-monospace,monospace;background:#f4f2ee}pre{padding:.8rem;overflow-x:auto}
table{border-collapse:collapse}td,th{border:1px solid #d8d4cc;padding:.3rem .6rem;text-align:left;vertical-align:top}</style>"""


def routes(gateway: Gateway) -> Router:
    reference = MarkdownIt("commonmark").enable("table").render((Path(__file__).parent / "reference.md").read_text("utf-8"))

    # Some load balancers ask with HEAD.
    @route("/health/live", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def alive() -> dict[str, str]:
        return {"status": "alive"}

    @route("/health/ready", http_method=[HttpMethod.GET, HttpMethod.HEAD])
    async def ready() -> Response[dict[str, Any]]:
        spool = gateway.spool.stats()
        body: dict[str, Any] = {
            "status": "draining" if gateway.draining else "ready",
            "configuration": gateway.snapshot_cache.snapshot.version,
            "postgres": "connected" if gateway.snapshot_cache.connected else "away: serving by what is known",
            "spool_bytes": spool.size_bytes,
            "records_lost": spool.lost_records,
        }
        return Response(body, status_code=503 if gateway.draining else 200)

    @get("/metrics")
    async def metrics() -> Response[bytes]:
        update_spool_metrics(gateway)
        return Response(gateway.telemetry.render(), media_type=telemetry.CONTENT_TYPE)

    @get("/docs")
    async def docs() -> Response[str]:
        return Response(_PAGE + reference, media_type="text/html; charset=utf-8")

    return Router("/", route_handlers=[alive, ready, metrics, docs])


async def keep_metrics_current(gateway: Gateway) -> None:
    """What this process has to tell, told every second, and at its end: a scrape of another one tells it too."""
    try:
        while True:
            await asyncio.sleep(1)
            gateway.telemetry.flush()
            # No file may be left to look at the spool with; what has ended must be counted all the same, for until then it is held.
            with contextlib.suppress(OSError):
                update_spool_metrics(gateway)
    finally:
        gateway.telemetry.flush()


def update_spool_metrics(gateway: Gateway) -> None:
    spool = gateway.spool.stats()
    writer = read_status(gateway.settings.home)
    gateway.telemetry.set_spool(
        size_bytes=spool.size_bytes,
        oldest_s=spool.oldest_s,
        lost=spool.lost_records,
        lost_content=spool.lost_content,
        quarantined=writer.quarantined if writer else 0,
    )
