"""GET /metrics: the page is rendered once for all scrapes that wait for it."""

import asyncio
import sys
import threading

import pytest
from prometheus_client import CollectorRegistry

from app.api.metrics import MetricsPage
from app.process.telemetry import Telemetry
from tests.support.processes.wait_until import GENEROUS_S


class _HeldTelemetry(Telemetry):
    """Renders when it is let go."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry())
        self.renderings = 0
        self.switch_interval_s = 0.0
        self.let_go = threading.Event()

    def render_flushed(self) -> bytes:
        self.renderings += 1
        self.switch_interval_s = sys.getswitchinterval()
        assert self.let_go.wait(GENEROUS_S)
        return super().render_flushed()


async def test_scrapes_share_a_page_and_one_that_is_cancelled_takes_it_from_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    usual_s = sys.getswitchinterval()
    telemetry = _HeldTelemetry()
    page = MetricsPage(telemetry)
    scrapes = [asyncio.create_task(page.render()) for _ in range(3)]
    await asyncio.sleep(0)
    scrapes[0].cancel()
    await asyncio.sleep(0)
    telemetry.let_go.set()
    first, second = await asyncio.gather(*scrapes[1:])
    assert scrapes[0].cancelled() and first is second and b"narthex_requests_in_flight" in first
    assert telemetry.renderings == 1 and telemetry.switch_interval_s < usual_s == sys.getswitchinterval()
    telemetry.in_flight = 5
    assert b"narthex_requests_in_flight 5.0" in await page.render()  # a later scrape has a page of its own
    assert telemetry.renderings == 2
