"""A service with a history, Debian's Chromium, and pages of somebody who is signed in."""

import importlib
import shutil
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.browser.apart import run_apart
from tests.browser.history import fill
from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S

PICTURES = Path(__file__).parents[2] / "dist" / "browser"
AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
ROWS, DAYS, CONVERSATIONS = 20_000, 10, 60


@pytest.fixture(scope="session")
def filled() -> Generator[Service]:
    running = services.start(breaker_failures=3, experiment_check_s=1, budget_check_s=1)
    try:
        run_apart(fill(running, rows=ROWS, days=DAYS, conversations=CONVERSATIONS))
        yield running
    finally:
        services.stop(running)


@pytest.fixture(scope="session")
def chromium() -> Generator[Any]:
    executable = shutil.which("chromium")
    assert executable is not None, "install Debian's chromium"
    with importlib.import_module("playwright.sync_api").sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def replayed(filled: Service) -> dict[str, str]:
    """The replay of the history, and one of its pairs, as they are in addresses."""
    with httpx2.Client(headers={"authorization": f"Bearer {filled.admin_key}"}, base_url=filled.url, timeout=60, trust_env=False) as admin:
        replay = admin.get("/admin/v1/replays").json()["data"][-1]["id"]
        pair = admin.get(f"/admin/v1/replays/{replay}/items", params={"status": "done"}).json()["data"][0]["number"]
    return {"replay": replay, "pair": str(pair)}


class Faults:
    """Whatever a page must not do: errors in the console, violations of the policy, requests to other hosts, dialogs."""

    def __init__(self, page: Any, url: str) -> None:
        self.found: list[str] = []
        self._url = url
        page.on("console", self._console)
        page.on("pageerror", self._add)
        page.on("dialog", self._dialog)
        page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self._add(message.text)

    def _dialog(self, dialog: Any) -> None:
        self._add(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self._url, "data:", "blob:")):
            self._add(f"a request: {request.url}")

    def _add(self, what: Any) -> None:
        self.found.append(str(what))


@pytest.fixture
def open_page(filled: Service, chromium: Any) -> Generator[Callable[..., tuple[Any, Faults]]]:
    contexts: list[Any] = []

    def open(
        width: int = 1440, theme: str = "light", *, signed_in: bool = True, key: str | None = None, token: str | None = None
    ) -> tuple[Any, Faults]:
        """Opens a page, signed in with a key, by default an admin's, or with the token of a service account in each of its requests."""
        size = {"width": width, "height": 900 if width > 500 else 844}
        context = chromium.new_context(
            viewport=size, color_scheme=theme, locale="en-GB", timezone_id="Europe/Berlin", base_url=filled.url, reduced_motion="reduce"
        )
        contexts.append(context)
        if token is not None:
            context.set_extra_http_headers({"authorization": f"Bearer {token}"})
        elif signed_in:
            answer = context.request.post("/admin/v1/sign-in/key", data={"key": key or filled.admin_key}, headers={"origin": filled.url})
            assert answer.status == 200, answer.text()
        page = context.new_page()
        page.set_default_timeout(1000 * GENEROUS_S)
        return page, Faults(page, filled.url)

    yield open
    for context in contexts:
        context.close()


def settle(page: Any) -> None:
    """Wait until everything that was asked for is here."""
    page.wait_for_load_state("networkidle")
    wait_for(page, "!document.querySelector('.skeleton, .dimmed, [aria-busy=true]')")


def wait_for(page: Any, expression: str) -> None:
    """Wait until an expression of the page is true. Playwright's own way would evaluate text within the page, which its policy forbids."""
    deadline = time.monotonic() + GENEROUS_S
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never true: {expression}"
        page.wait_for_timeout(50)
