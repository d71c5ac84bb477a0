"""Every view is there at once over a million requests, and the first one soon on a slow line with a slow processor."""

import json
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.browser.apart import run_apart
from tests.browser.conftest import PICTURES, Faults, settle, wait_for
from tests.browser.history import fill
from tests.support.processes import service as services
from tests.support.processes.service import Service

ROWS, DAYS, CONVERSATIONS, CONTENT = 1_000_000, 30, 20, 10_000
ROUNDS = 20
MAX_VIEW_MS = 500
VIEWS = (
    "?range=30d",
    "?range=24h",
    "/requests?range=30d",
    "/requests?range=30d&outcome=failed&team=team-3",
    "/requests?range=30d&show=refused",
    "/conversations?range=30d",
    "/experiments",
    "/experiments/support",
    "/functions/support?range=30d",
    "/teams?range=30d",
    "/teams/team-3?range=30d",
    "/limits",
    "/cost?range=30d&by=model",
    "/cost?range=30d&by=end_user",
    "/fleet",
    "/models",
    "/audit",
)
FIRST_CONTENT_MS = 1000
# When the name of the view was painted.
WATCH = """
new MutationObserver((_, observer) => {
  if (!document.querySelector('#main h1')) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.firstContent = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""
# From one view to another by a link, as a reader goes: until everything is here, and nothing is on its way.
GO = """
async (address) => {
  const began = performance.now();
  const link = document.createElement('a');
  link.href = address;
  document.body.append(link);
  link.click();
  link.remove();
  let quiet = 0;
  while (quiet < 3) {
    await new Promise((done) => requestAnimationFrame(done));
    const busy = document.querySelector('#main .skeleton, #main .dimmed, #main [aria-busy=true]') || !document.querySelector('#main h1');
    quiet = busy ? 0 : quiet + 1;
  }
  return performance.now() - began;
}
"""


@pytest.fixture(scope="module")
def large() -> Generator[Service]:
    running = services.start(experiment_check_s=5)
    try:
        run_apart(fill(running, rows=ROWS, days=DAYS, conversations=CONVERSATIONS, content=CONTENT))
        yield running
    finally:
        services.stop(running)


def test_views_over_a_million_requests_are_there_at_once(large: Service, chromium: Any) -> None:
    slow = measure(large, chromium)
    assert {view: times for view, times in slow.items() if times[1] > MAX_VIEW_MS} == {}, slow


def measure(service: Service, chromium: Any) -> dict[str, tuple[int, int]]:
    """The median and the 95th percentile of each view in milliseconds, once it has been shown before."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, base_url=service.url, reduced_motion="reduce")
    answer = context.request.post("/admin/v1/sign-in/key", data={"key": service.admin_key}, headers={"origin": service.url})
    assert answer.status == 200, answer.text()
    page = context.new_page()
    page.set_default_timeout(60_000)
    found: dict[str, tuple[int, int]] = {}
    for view in VIEWS:
        page.goto(f"/dashboard{view}")
        settle(page)
        times: list[float] = []
        for _ in range(ROUNDS):
            page.goto("/dashboard/nothing")  # forgets what the page has kept
            page.wait_for_selector("#main h1")
            times.append(page.evaluate(GO, f"/dashboard{view}"))
        times.sort()
        found[view] = (round(times[len(times) // 2]), round(times[int(len(times) * 0.95) - 1]))
    context.close()
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / "speed.json").write_text(json.dumps({"rows": ROWS, "median and p95 in ms": found}, indent=1))
    return found


def test_first_content_comes_soon_on_a_slow_line(filled: Service, open_page: Callable[..., tuple[Any, Faults]]) -> None:
    page, faults = open_page()
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    line = {"offline": False, "latency": 150, "downloadThroughput": 1_600_000 / 8, "uploadThroughput": 750_000 / 8}
    session.send("Network.emulateNetworkConditions", line)
    session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.add_init_script(WATCH)
    times: list[int] = []
    for _ in range(5):
        session.send("Network.clearBrowserCache")
        page.goto("/dashboard")
        wait_for(page, "window.firstContent > 0")
        times.append(round(page.evaluate("window.firstContent")))
        settle(page)
    # The quickest: other work on this machine makes some slower, and nothing makes one quicker.
    assert min(times) < FIRST_CONTENT_MS, times
    assert faults.found == []
