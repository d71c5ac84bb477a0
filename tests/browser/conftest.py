"""A service with a history, Debian's Chromium, and pages of somebody who is signed in."""

import asyncio
import importlib
import shutil
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.history import fill
from tests.support.processes import service as services
from tests.support.processes.service import Service

PICTURES = Path(__file__).parents[2] / "dist" / "browser"
AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
ROWS, DAYS, CONVERSATIONS = 20_000, 10, 60


@pytest.fixture(scope="session")
def filled() -> Generator[Service]:
    running = services.start(breaker_failures=3, experiment_check_s=1, budget_check_s=1)
    try:
        asyncio.run(fill(running, rows=ROWS, days=DAYS, conversations=CONVERSATIONS))
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

    def open(width: int = 1440, theme: str = "light", *, signed_in: bool = True, key: str | None = None) -> tuple[Any, Faults]:
        size = {"width": width, "height": 900 if width > 500 else 844}
        context = chromium.new_context(
            viewport=size, color_scheme=theme, locale="en-GB", timezone_id="Europe/Berlin", base_url=filled.url, reduced_motion="reduce"
        )
        contexts.append(context)
        if signed_in:
            answer = context.request.post("/admin/v1/sign-in/key", data={"key": key or filled.admin_key}, headers={"origin": filled.url})
            assert answer.status == 200, answer.text()
        page = context.new_page()
        page.set_default_timeout(20_000)
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
    deadline = time.monotonic() + 20
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never true: {expression}"
        page.wait_for_timeout(50)
