"""The API reference in a browser: it is searched, its operations are tried as who is signed in or with a key, and it keeps nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import AXE, PICTURES, Faults, settle, wait_for
from tests.browser.test_paths import stub
from tests.browser.test_screens import SIZES, look_at
from tests.support.processes.service import Service

OpenPage = Callable[..., tuple[Any, Faults]]
VIEWS = ("", "#tag-keys", "#op-create_key", "#op-list_inferences", "#schema-InferenceWithContent", "#schemas", "#chat", "#nowhere")


def open_reference(page: Any, anchor: str = "") -> None:
    page.goto("about:blank")
    page.goto(f"/docs{anchor}")
    page.wait_for_selector("#main h1, #guide h2")
    settle(page)


@pytest.mark.parametrize(("width", "theme"), SIZES)
def test_views_fit_and_can_be_read(open_page: OpenPage, width: int, theme: str) -> None:
    page, faults = open_page(width, theme, signed_in=False)
    PICTURES.mkdir(parents=True, exist_ok=True)
    axe, wrong = AXE.read_text(), dict[str, list[str]]()
    for view in VIEWS:
        open_reference(page, view)
        wrong[view] = look_at(page, axe) + faults.found
        faults.found.clear()
        page.screenshot(path=PICTURES / f"reference-{view.strip('#') or 'start'}-{width}-{theme}.png")
    assert {view: each for view, each in wrong.items() if each} == {}


def test_dashboard_leads_to_the_reference_and_back(open_page: OpenPage) -> None:
    page, faults = open_page()
    page.goto("/dashboard/fleet")
    settle(page)
    with page.context.expect_page() as opened:
        page.click("nav.menu >> text=API reference")
    reference = opened.value
    reference.wait_for_selector("h1 >> text=API reference")
    reference.click("header >> text=Dashboard")
    reference.wait_for_selector("h1 >> text=Overview")
    assert faults.found == []


def test_methods_are_whole_and_every_operation_is_found(open_page: OpenPage) -> None:
    page, faults = open_page(signed_in=False)
    open_reference(page)
    broken = page.evaluate("[...document.querySelectorAll('.method')].filter((each) => each.getClientRects()[0].height > 24).length")
    assert page.locator(".method").count() > 200 and broken == 0
    page.keyboard.press("/")
    page.keyboard.type("rotate key")
    page.wait_for_selector("h1 >> text=Found")
    assert "/admin/v1/keys/{prefix}/rotate" in page.inner_text("#main .operation .path")
    page.fill("#search", "no such thing anywhere")
    page.wait_for_selector(".state >> text=Nothing has all of these words")
    assert faults.found == []


def test_operation_is_tried_as_who_is_signed_in(open_page: OpenPage) -> None:
    page, faults = open_page()
    open_reference(page, "#op-list_teams")
    page.click("#op-list_teams >> text=Try it")
    page.fill("[id='list_teams-query-limit']", "2")
    page.click("#op-list_teams >> text=Send GET")
    page.wait_for_selector("#op-list_teams .sent .tag >> text=200")
    assert '"data"' in page.inner_text("#op-list_teams .sent")
    assert "limit=2" in page.inner_text("#op-list_teams .try .inner:last-child pre") or page.locator("#op-list_teams .try .inner").count()
    open_reference(page, "#op-create_team")
    page.click("#op-create_team >> text=Try it")
    page.fill("[id='create_team-body']", '{"name": "made in the reference"}')
    page.click("#op-create_team >> text=Send POST")
    page.wait_for_selector("#op-create_team .sent .tag >> text=200")
    assert '"dry_run": true' in page.inner_text("#op-create_team .sent"), "a change is only tried until its reader says otherwise"
    assert faults.found == []


def test_operation_is_tried_with_a_key_that_is_kept_nowhere(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page(signed_in=False)
    open_reference(page, "#op-create_chat_completion")
    operation = page.locator("details.operation[open]")
    operation.locator("text=Try it").click()
    operation.locator("input[type=password]").fill(filled.key)
    body = '{"model": "sandbox", "stream": true, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 20}'
    operation.locator("textarea").fill(body)
    operation.locator("text=Send POST").click()
    page.wait_for_selector(".sent .tag >> text=200")
    wait_for(page, "document.querySelector('.sent').getAttribute('aria-busy') === 'false'")
    assert "[DONE]" in operation.locator(".sent").inner_text()
    operation.locator("text=The same with curl").click()
    assert "$NARTHEX_KEY" in operation.locator(".try").inner_text() and filled.key not in operation.inner_text()
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    assert filled.key not in stored
    page.reload()
    page.wait_for_selector("details.operation[open]")
    page.locator("details.operation[open] >> text=Try it").click()
    assert page.locator("details.operation[open] input[type=password]").input_value() == ""
    assert faults.found == []


def test_hostile_answers_are_text(open_page: OpenPage) -> None:
    page, faults = open_page()
    stub(page, "**/admin/v1/teams*", 200, '{"data": "<img src=x onerror=alert(1)>"}')
    open_reference(page, "#op-list_teams")
    page.click("#op-list_teams >> text=Try it")
    page.click("#op-list_teams >> text=Send GET")
    page.wait_for_selector("#op-list_teams .sent >> text=onerror=alert")
    assert page.locator(".sent img").count() == 0 and faults.found == []
