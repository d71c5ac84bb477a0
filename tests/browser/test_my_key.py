"""The page of a key that is no admin key: what is its own, and nothing else."""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.browser.conftest import AXE, PICTURES, Faults, settle, wait_for
from tests.browser.test_playground import OVER, new_key, write
from tests.browser.test_screens import look_at
from tests.support.processes.service import Service

OpenPage = Callable[..., tuple[Any, Faults]]


@pytest.fixture(scope="module")
def used(filled: Service) -> dict[str, Any]:
    """A key with some requests."""
    created = new_key(filled, "mobile-app", models=["sandbox", "support"], name="the mobile app")
    admin = {"authorization": f"Bearer {filled.admin_key}"}
    budget = {"name": "the app in a month", "scope": {"team": "mobile-app"}, "amount": 3, "per": "month"}
    limit = {"name": "the app in a minute", "scope": {"key": created["prefix"]}, "resource": "requests", "amount": 100, "per": "minute"}
    with httpx2.Client(base_url=filled.url, timeout=60, trust_env=False) as client:
        client.post("/admin/v1/budgets", json=budget, headers=admin).raise_for_status()
        client.post("/admin/v1/limits", json=limit, headers=admin).raise_for_status()
        for question in ("Where is my parcel?", "What does error E42 mean?", "Translate: we ship on Fridays."):
            body = {"model": "sandbox", "messages": [{"role": "user", "content": question}], "max_tokens": 20}
            sent = client.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {created['key']}"})
            sent.raise_for_status()
    return created


def open_own(open_page: OpenPage, used: dict[str, Any], width: int = 1440, theme: str = "light") -> tuple[Any, Faults]:
    page, faults = open_page(width, theme, key=used["key"])
    page.goto("/dashboard?range=24h")
    settle(page)
    for _ in range(60):  # records come a moment later
        if page.locator("tbody tr [id^=row-]").count() >= 3:
            break
        page.wait_for_timeout(500)
        page.reload()
        settle(page)
    return page, faults


def test_key_sees_its_page_and_a_menu_of_two(open_page: OpenPage, filled: Service, used: dict[str, Any]) -> None:
    page, faults = open_own(open_page, used)
    assert page.locator("#menu li a").all_inner_texts() == ["My key", "Playground"]
    text = page.inner_text("main")
    for expected in ("the app in a month", "the app in a minute", "Where is my parcel?", "mobile-app", "every network"):
        assert expected in text, expected
    own = httpx2.get(f"{filled.url}/v1/usage", headers={"authorization": f"Bearer {used['key']}"}, timeout=60, trust_env=False).json()
    assert page.locator(".tile", has_text="Requests").locator(".value").inner_text() == str(own["total"]["requests"])
    page.locator("tbody tr a[id^=row-]").first.click()
    page.wait_for_selector(".drawer .why li")
    page.click("#tab-raw")
    settle(page)
    page.keyboard.press("Escape")
    page.wait_for_selector(".drawer", state="detached")
    assert faults.found == []


def test_views_of_others_are_refused_in_words(open_page: OpenPage, used: dict[str, Any]) -> None:
    page, _ = open_own(open_page, used)
    page.goto("/dashboard/teams")
    page.wait_for_selector("[role=alert] >> text=needs an admin key")


def test_key_plays_and_signs_out(open_page: OpenPage, used: dict[str, Any]) -> None:
    page, faults = open_own(open_page, used)
    page.click("main >> text=Playground")
    page.fill("#max_tokens", "6")
    settle(page)
    assert page.locator("#as").count() == 0 and used["prefix"] in page.inner_text(".play-settings")
    write(page, "Mine alone")
    wait_for(page, OVER)
    assert faults.found == []
    page.click("text=Sign out")
    page.wait_for_selector("h1 >> text=Sign in")


def test_session_that_ends_asks_to_sign_in_and_keeps_what_is_written(open_page: OpenPage, filled: Service) -> None:
    key = new_key(filled, "mobile-app")
    page, _ = open_page(key=key["key"])
    page.goto("/dashboard/playground?model=sandbox&max_tokens=5")
    settle(page)
    page.fill("#message", "Still here")
    headers = {"authorization": f"Bearer {filled.admin_key}"}
    httpx2.delete(f"{filled.url}/admin/v1/keys/{key['prefix']}", headers=headers, timeout=60, trust_env=False).raise_for_status()
    page.click("button:text-is('Send')")
    page.wait_for_selector("dialog >> text=Your session has ended")
    assert "Still here" in page.inner_text("[role=log]")


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (1440, "dark"), (390, "light"), (320, "dark")])
def test_page_of_a_key_fits_and_can_be_read(open_page: OpenPage, used: dict[str, Any], width: int, theme: str) -> None:
    page, faults = open_own(open_page, used, width, theme)
    assert look_at(page, AXE.read_text()) + faults.found == []
    page.screenshot(path=PICTURES / f"my-key-{width}-{theme}.png", full_page=True)
