"""People sign in, find out why, and change something; and the page says so when something is wrong."""

import json
from collections.abc import Callable
from typing import Any

import httpx2

from app.store.access.key_sessions import create_one_time_code
from tests.browser.apart import run_apart
from tests.browser.conftest import Faults, settle, wait_for
from tests.browser.history import HOSTILE
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url

OpenPage = Callable[..., tuple[Any, Faults]]


def admin(service: Service, path: str, **parameters: Any) -> Any:
    headers = {"authorization": f"Bearer {service.admin_key}"}
    response = httpx2.get(f"{service.url}/admin/v1{path}", params=parameters, headers=headers, timeout=60, trust_env=False)
    response.raise_for_status()
    return response.json()


def stub(page: Any, pattern: str, status: int, body: str) -> None:
    """Answer instead of the service, until page.unroute()."""

    def answer(route: Any) -> None:
        route.fulfill(status=status, content_type="application/json", body=body)

    page.route(pattern, answer)


def test_a_key_signs_in_and_is_kept_nowhere(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page(signed_in=False)
    page.goto("/dashboard/fleet")
    page.fill("#key", "nx-000000000000-" + "a" * 43)
    page.click("text=Sign in >> nth=-1")
    page.wait_for_selector("[role=alert] >> text=not valid")
    page.fill("#key", filled.admin_key)
    page.click("text=Sign in >> nth=-1")
    page.wait_for_selector("h1 >> text=Fleet")
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
    assert filled.admin_key not in stored and "nxb-" not in stored
    page.click("text=Sign out")
    page.wait_for_selector("h1 >> text=Sign in")


def test_the_printed_link_signs_in_once(open_page: OpenPage, filled: Service) -> None:
    printed = next(line.split()[1] for line in (filled.home / "up.log").read_text().splitlines() if "Dashboard" in line)
    address, separator, _ = printed.partition("#once=")
    # The tests before may take longer than the printed code lasts.
    link = f"{address}{separator}{run_apart(create_one_time_code(database_url(filled), filled.admin_key, lasts_s=900))}"
    assert separator
    page, _ = open_page(signed_in=False)
    page.goto(link)
    page.wait_for_selector("h1 >> text=Overview")
    assert "once" not in page.url
    another, _ = open_page(signed_in=False)
    another.goto(link)
    another.wait_for_selector("[role=alert] >> text=used already")


def test_numbers_of_a_tile_its_chart_and_its_list_agree(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page()
    page.goto("/dashboard?range=30d")
    settle(page)
    tile = page.locator("a.tile", has_text="Requests").first
    shown = int("".join(each for each in tile.get_attribute("title") if each.isdigit()))
    page.locator("figure", has_text="Requests by outcome").locator("summary").click()
    head = page.locator("figure", has_text="Requests by outcome").locator("thead th").all_inner_texts()
    rows = page.locator("figure", has_text="Requests by outcome").locator("tbody tr").all()
    table = [[cell.replace(",", "") for cell in row.locator("th, td").all_inner_texts()] for row in rows]
    charted = sum(int(row[at]) for row in table for at, name in enumerate(head) if at and name != "refused")
    assert shown == charted
    tile.click()
    wait_for(page, "/[0-9] requests?/.test(document.querySelector('.about')?.textContent ?? '')")
    listed = int("".join(each for each in page.inner_text(".about").split("request")[0] if each.isdigit()))
    assert listed == shown


def test_a_request_is_found_opened_and_left_by_keyboard_alone(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    page.goto("/dashboard")
    settle(page)
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_selector("table.list tbody tr")
    page.keyboard.press("j")
    first = page.evaluate("document.activeElement.id")
    assert first.startswith("row-")
    page.keyboard.press("Enter")
    page.wait_for_selector(".drawer .why li")
    page.keyboard.press("j")
    wait_for(page, f"!location.search.includes('{first.removeprefix('row-')}')")
    page.wait_for_selector(".drawer .why li")
    second = page.evaluate("new URLSearchParams(location.search).get('id')")
    page.keyboard.press("Escape")
    page.wait_for_selector(".drawer", state="detached")
    wait_for(page, f"document.activeElement.id === 'row-{second}'")
    assert faults.found == []


def test_any_id_is_opened_by_the_palette(open_page: OpenPage, filled: Service) -> None:
    [newest] = admin(filled, "/inferences", limit=1)["data"]
    page, _ = open_page()
    page.goto("/dashboard/cost")
    settle(page)
    page.keyboard.press("Control+k")
    page.keyboard.type(newest["id"])
    page.keyboard.press("Enter")
    page.wait_for_selector(f".drawer >> text={newest['id']}")


def test_filters_are_links_and_survive_the_drawer(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page()
    page.goto("/dashboard/requests?range=30d")
    settle(page)
    page.click("#add-filter")
    page.select_option("form select >> nth=0", "model")
    page.wait_for_selector("form select >> nth=-1 >> option:has-text('sandbox')", state="attached")
    page.select_option("form select >> nth=-1", "sandbox")
    wait_for(page, "location.search.includes('model=sandbox')")
    settle(page)
    page.locator("table.list tbody tr a").first.click()
    page.wait_for_selector(".drawer .why li")
    assert "model=sandbox" in page.url
    page.click("[aria-label='Close (Escape)']")
    assert "model=sandbox" in page.url
    page.click("[aria-label^='Remove the filter model']")
    wait_for(page, "!location.search.includes('model=')")


def test_what_others_wrote_is_text(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    page.goto("/dashboard/requests?team=search")
    settle(page)
    ids = [each["id"] for each in admin(filled, "/inferences", team="search", limit=20)["data"]]
    seen = ""
    for id in ids:
        page.goto(f"/dashboard/requests?team=search&id={id}")
        page.wait_for_selector(".drawer .message, .drawer .state")
        seen += page.inner_text(".drawer")
        assert page.locator(".drawer script, .drawer img, .drawer a[href^='javascript']").count() == 0
    assert HOSTILE[0][:40] in seen and "⟨202E⟩" in seen and "⟨200B⟩" in seen
    assert page.title() != "broken in" and faults.found == []


def test_a_key_is_made_shown_once_and_revoked(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page()
    page.goto("/dashboard/teams")
    settle(page)
    page.click("text=New key")
    page.fill("#team", "support")
    page.fill("#name", "made by a test")
    page.click("dialog >> text=Create")
    key = page.inner_text(".secret code")
    assert key.startswith("nx-")
    page.click("dialog >> text=Done")
    settle(page)
    page.click(f"a:has-text('{key[:15]}')")
    page.click("text=Revoke …")
    page.fill("#confirm-name", key[:15])
    page.click("dialog button:has-text('Revoke')")
    page.wait_for_selector(".head .tag >> text=revoked")
    assert admin(filled, f"/keys/{key[:15]}")["state"] == "revoked"


def test_a_refusal_is_shown_where_it_was_typed(open_page: OpenPage) -> None:
    page, _ = open_page()
    page.goto("/dashboard/teams?new=key")
    page.fill("#team", "support")
    page.fill("#models", "not*allowed")
    page.click("dialog >> text=Create")
    page.wait_for_selector("#models-about .fault")


def test_a_failing_panel_says_so_and_recovers(open_page: OpenPage) -> None:
    page, _ = open_page()
    body = json.dumps({"error": {"message": "Postgres is away.", "type": "unavailable", "code": "unavailable", "param": None}})
    stub(page, "**/admin/v1/budgets*", 503, body)
    page.goto("/dashboard")
    page.wait_for_selector(".fault-box >> text=Postgres is away.")
    page.wait_for_selector("text=Requests by outcome")
    page.unroute("**/admin/v1/budgets*")
    page.click(".fault-box >> text=Try again")
    page.wait_for_selector(".budget-list")


def test_an_ended_session_is_renewed_where_it_ended(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page()
    page.goto("/dashboard/requests?team=support")
    settle(page)
    page.context.clear_cookies()
    page.click("text=failed")
    page.wait_for_selector("dialog >> text=Your session has ended")
    page.fill("#key", filled.admin_key)
    page.click("dialog button:has-text('Sign in')")
    page.wait_for_selector("dialog", state="detached")
    page.wait_for_selector("table.list, .state")
    assert "team=support" in page.url and "outcome=failed" in page.url


def test_menu_has_what_the_role_shows(open_page: OpenPage) -> None:
    page, _ = open_page()
    session: dict[str, Any] = {"kind": "user", "id": "1", "name": "ann@example.com", "roles": [{"role": "viewer", "team": "support"}]}
    session |= {"permissions": [], "team_permissions": {"support": ["teams:read", "keys:read", "records:read"]}}
    stub(page, "**/admin/v1/session", 200, json.dumps(session))
    page.goto("/dashboard/requests")
    page.wait_for_selector("nav.menu a")
    names = page.locator("nav.menu li a").all_inner_texts()
    assert names == ["Overview", "Requests", "Conversations", "Feedback", "Datasets", "Replays", "Teams and keys", "Cost"]
