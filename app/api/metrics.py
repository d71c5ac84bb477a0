"""GET /metrics, and the task that keeps the metrics of this process current between scrapes."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from litestar import Request, Response, Router, get

from app.api.callers.authentication import authenticate_scope
from app.api.callers.caller_route import TEXT, CallerRoute
from app.domain.callers import Caller
from app.gateway.pipeline.gateway import Gateway
from app.process.live_series import CONTENT_TYPE
from app.process.switch_interval import short_switch_interval
from app.process.telemetry import Telemetry
from app.recording.spool.writer_status import read_status
from providers.canonical.errors import NotAllowed

_PAUSE_SHARE = 3


def routes(gateway: Gateway) -> Router:
    access = gateway.settings.metrics
    metrics_page = MetricsPage(gateway.telemetry)

    @get("/metrics")
    async def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
        if access == "key":
            _check_permission(await authenticate_scope(gateway.snapshot_cache, request.scope))
        _update_spool_metrics(gateway)
        _update_connection_metrics(gateway)
        gateway.limits.report()
        _update_models(gateway)
        return Response(await metrics_page.render(), media_type=CONTENT_TYPE)

    return Router("/", route_handlers=[] if access == "off" else [metrics])


DESCRIPTIONS: Sequence[CallerRoute] = (
    CallerRoute(
        method="GET",
        path="/metrics",
        id="get_metrics",
        tag="Operation",
        summary="Metrics in Prometheus's text format",
        description="An operator may close it (404), or ask for a key (401, 403).",
        access="public",
        response=TEXT,
        response_media_type="text/plain",
        errors=(401, 403, 404),
    ),
)


class MetricsPage:
    """Renders the page in a thread, once for all scrapes that wait for it.

    With a thousand models it takes a second of Python. Between two renderings there is a pause of three times
    their duration, however many clients scrape: anybody may, and Python runs in one thread at a time.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._rendering: asyncio.Future[bytes] | None = None
        self._pauses_until_s = 0.0

    async def render(self) -> bytes:
        if self._rendering is None or self._rendering.done():
            self._rendering = asyncio.ensure_future(self._render_after_pause())
        # A scraper that disconnects cancels its own wait, not the page of the others.
        return await asyncio.shield(self._rendering)

    async def _render_after_pause(self) -> bytes:
        if (pause_s := self._pauses_until_s - time.monotonic()) > 0:
            await asyncio.sleep(pause_s)
        began_s = time.monotonic()
        self._telemetry.flush()
        page = await asyncio.to_thread(self._render_flushed)
        ended_s = time.monotonic()
        self._pauses_until_s = ended_s + _PAUSE_SHARE * (ended_s - began_s)
        return page

    def _render_flushed(self) -> bytes:
        with short_switch_interval():
            return self._telemetry.render_flushed()


def _check_permission(caller: Caller) -> None:
    """A key without restrictions is not enough: the metrics are those of all teams."""
    if not caller.admin and caller.routes is None:
        raise NotAllowed("This needs an admin key, or a key whose routes name it: `narthex keys create --team T --route /metrics`.")


async def keep_metrics_current(gateway: Gateway) -> None:
    """Flush the metrics of this process every second, and when it ends: a scrape of another worker reports them too."""
    try:
        while True:
            await asyncio.sleep(1)
            gateway.telemetry.flush()
            # With no file descriptor left the spool cannot be read; ended requests are counted all the same, or they would pile up.
            with contextlib.suppress(OSError):
                _update_spool_metrics(gateway)
            gateway.telemetry.set_background_tasks(
                failing=sum(task.failure is not None for task in gateway.background_tasks),
                failure_counts={task.name: task.failure_count for task in gateway.background_tasks},
            )
            _update_connection_metrics(gateway)
            _update_fleet_metrics(gateway)
            gateway.limits.report()
            _update_models(gateway)
            gateway.telemetry.set_room(gateway.load_shedder.room)
            gateway.telemetry.set_waiting(gateway.target_queues.waiting_counts())
            gateway.telemetry.set_revocation_lag(gateway.snapshot_cache.revocation_lag_s)
    finally:
        gateway.telemetry.flush()


def _update_connection_metrics(gateway: Gateway) -> None:
    gateway.telemetry.set_connections(gateway.transport.connections(), gateway.transport.connections_per_origin)


def _update_fleet_metrics(gateway: Gateway) -> None:
    now = time.monotonic()
    states: Counter[tuple[str, str]] = Counter()
    in_flight: Counter[str] = Counter()
    for endpoint in gateway.fleet.endpoints:
        provider = endpoint.provider.configured_as
        is_open = endpoint.breaker.is_open(now) and endpoint.health != "no_api"
        states[provider, "breaker_open" if is_open else endpoint.health] += 1
        in_flight[provider] += endpoint.load.in_flight
    gateway.telemetry.set_endpoints(states, in_flight)


def _update_models(gateway: Gateway) -> None:
    snapshot = gateway.snapshot_cache.snapshot
    gateway.telemetry.keep_models(snapshot.models, snapshot.functions)


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
    if writer is not None:
        gateway.telemetry.set_writer(connected=writer.connected, silent_s=max(0.0, time.time() - writer.at), stored=writer.rows)
    if writer is not None:
        gateway.telemetry.set_stored_feedback(
            stored=writer.feedback,
            matched=writer.matched_feedback,
            unmatched=writer.unmatched_feedback,
            given_up=writer.given_up_feedback,
            conflicting=writer.conflicting_feedback,
        )
    if writer is not None and writer.export is not None:
        gateway.telemetry.set_export(exported_spans=writer.export.exported_spans, dropped_spans=writer.export.dropped_spans)
