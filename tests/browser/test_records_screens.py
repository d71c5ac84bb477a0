"""Datasets, replays, feedback, refusals and settings; what is excluded, and what is beside a request."""

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from tests.browser.conftest import Faults, settle, wait_for
from tests.browser.test_paths import admin
from tests.browser.test_roles import token_of
from tests.support.processes.service import Service

OpenPage = Callable[..., tuple[Any, Faults]]


def test_a_dataset_is_selected_and_its_rows_are_shown(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    name = f"made-{uuid.uuid4().hex[:8]}"
    page.goto("/dashboard/datasets")
    settle(page)
    page.click("text=New dataset")
    page.fill("#name", name)
    page.fill('[id="selection.model"]', "never-was")
    page.click("button:has-text('Check and review')")
    page.wait_for_selector("form [role=alert] >> text=No inference matches this selection")
    page.fill('[id="selection.model"]', "sandbox")
    page.click("button:has-text('Check and review')")
    page.wait_for_selector("text=This would happen")
    page.click("text=Create it")
    page.wait_for_selector(f"h1 >> text={name}")
    page.wait_for_selector("table >> text=complete", timeout=60_000)
    settle(page)
    version = admin(filled, f"/datasets/{name}/versions")["data"][0]
    assert version["rows"] > 0
    shown = page.locator("[aria-label='Versions'] td[data-name=rows]").first.inner_text()
    assert int(shown.replace(",", "")) == version["rows"]
    page.locator("[aria-label='Rows'] tbody a").first.click()
    page.wait_for_selector(".drawer .why li")
    assert [each for each in faults.found if "400" not in each] == []


def test_a_replay_is_compared_with_its_source(open_page: OpenPage, filled: Service, replayed: Mapping[str, str]) -> None:
    page, _ = open_page()
    id = replayed["replay"]
    page.goto(f"/dashboard/replays/{id}")
    page.wait_for_selector("h1 >> text=Replay with sandbox-slow")
    settle(page)
    results = admin(filled, f"/replays/{id}/results")
    assert results["summary"] in page.inner_text("main")
    assert [each.inner_text() for each in page.locator("[aria-label='Both compared'] tbody th").all()] == [
        each["metric"].replace("_", " ") for each in results["metrics"]
    ]
    page.locator("a.button:has-text('Compare')").first.click()
    page.wait_for_selector(".pairing .message")
    assert page.locator(".pairing h3").all_inner_texts()[0].startswith("Original:")
    assert "item=" in page.url, "the opened pair is in the address"


def test_a_replay_is_started_by_its_form(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    key = admin(filled, "/keys", team="research", limit=1)["data"][0]["prefix"]
    before = {each["id"] for each in admin(filled, "/replays", limit=100)["data"]}
    page.goto("/dashboard/replays")
    settle(page)
    page.click("text=New replay")
    page.fill("#model", "never-was")
    page.fill("#key", key)
    page.fill("#max_items", "2")
    page.fill('[id="filter.model"]', "sandbox")
    page.click("button:has-text('Check and review')")
    page.wait_for_selector("#model-about .fault >> text=never-was")
    page.fill("#model", "sandbox-slow")
    page.click("button:has-text('Check and review')")
    page.wait_for_selector("text=This would happen")
    assert {each["id"] for each in admin(filled, "/replays", limit=100)["data"]} == before, "a check starts nothing"
    page.click("text=Start it")
    page.wait_for_selector("h1 >> text=Replay with sandbox-slow")
    id = page.evaluate("location.pathname").rsplit("/", 1)[1]
    assert id not in before
    wait_until(lambda: admin(filled, f"/replays/{id}")["status"] == "complete")
    shown = admin(filled, f"/replays/{id}")
    assert (shown["definition"]["max_items"], shown["definition"]["filter"]["model"]) == (2, "sandbox")
    assert sum(shown["items"].values()) == 2
    assert [each for each in faults.found if "400" not in each] == []


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not is_so():
        assert time.monotonic() < deadline, "it never was so"
        time.sleep(0.2)


def test_somebody_with_a_role_writes_feedback_on_a_request(open_page: OpenPage, filled: Service) -> None:
    row = admin(filled, "/inferences", team="support", outcome="answered", limit=1)["data"][0]
    address = f"/dashboard/requests?team=support&id={row['id']}&tab=feedback"
    page, faults = open_page()
    page.goto(address)
    page.click("text=Write feedback")
    page.get_by_label("Metric").select_option("comment")
    page.get_by_label("Value").fill("It named the wrong parcel.")
    page.click("form[aria-label='Write feedback'] >> text=Save")
    page.wait_for_selector("[aria-label=Feedback] li >> text=It named the wrong parcel.")
    page.click("text=Write feedback")
    page.get_by_label("Metric").select_option("solved")
    page.wait_for_selector("text=It is about the whole conversation.")
    page.get_by_label("Value").select_option("no")
    page.click("form[aria-label='Write feedback'] >> text=Save")
    page.wait_for_selector("[aria-label=Feedback] li:has-text('solved'):has-text('written by a person') >> text=false")
    [comment] = admin(filled, "/feedback", inference_id=row["id"], metric="comment")["data"]
    assert (comment["value"], comment["tags"]) == ("It named the wrong parcel.", {"source": "admin"})
    solved = admin(filled, "/feedback", episode_id=row["episode_id"], metric="solved", current="true")["data"]
    assert [each["value"] for each in solved if each["tags"]] == [False]
    events = admin(filled, "/audit", resource="inference", name=row["id"])["data"]
    assert [each["action"] for each in events] == ["write_feedback", "write_feedback"]
    assert faults.found == []
    viewer, _ = open_page(token=token_of(filled, "viewer", "support"))
    viewer.goto(address)
    viewer.wait_for_selector("[aria-label=Feedback] li")
    assert viewer.locator("text=Write feedback").count() == 0


def test_feedback_is_listed_and_summed_as_the_api_has_it(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    page.goto("/dashboard/feedback?range=30d")
    settle(page)
    listed = page.locator("[aria-label=Feedback] tbody tr").count()
    assert listed == min(50, len(admin(filled, "/feedback", limit=200, current="true")["data"]))
    page.select_option("select >> nth=-1", "solved")
    page.wait_for_selector("[aria-label='Sums of solved'] tbody tr")
    sums = admin(filled, "/feedback/sums", metric="solved", days=30)["data"]
    shown = [int(each.replace(",", "")) for each in page.locator("[aria-label='Sums of solved'] td[data-name=feedback]").all_inner_texts()]
    assert shown == [each["count"] for each in sums]
    page.locator("[aria-label=Feedback] tbody a").first.click()
    page.wait_for_selector("h1")
    assert faults.found == []


def test_a_refusal_says_when_it_passes(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page()
    page.goto("/dashboard/requests?show=refused&team=mobile")
    settle(page)
    rows = admin(filled, "/refusals", team="mobile", limit=50)["data"]
    limited = [each for each in rows if each["rule"]]
    assert limited and all(each["passes_at"] for each in limited)
    texts = page.locator("td[data-name=passes]").all_inner_texts()
    assert len([each for each in texts if each.startswith(("since", "in "))]) == len(limited)


def test_everything_but_a_model_is_a_filter(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    page.goto("/dashboard/requests?range=30d")
    settle(page)
    page.click("#add-filter")
    page.select_option("form select >> nth=0", "model")
    page.select_option("form select >> nth=1", "not")
    page.wait_for_selector("form select >> nth=2 >> option:has-text('sandbox')", state="attached")
    page.select_option("form select >> nth=2", "sandbox")
    wait_for(page, "location.search.includes('not_model=sandbox')")
    page.click("#add-filter")
    page.select_option("form select >> nth=0", "model")
    page.select_option("form select >> nth=1", "not")
    page.wait_for_selector("form select >> nth=2 >> option:has-text('support')", state="attached")
    page.select_option("form select >> nth=2", "support")
    wait_for(page, "location.search.split('not_model=').length === 3")
    settle(page)
    shown = page.locator("table.list tbody td:nth-child(4)").all_inner_texts()
    assert shown and not any(each.split()[0] in ("sandbox", "support") for each in shown)
    counted = admin(filled, "/inferences/count", not_model=["sandbox", "support"], since="2026-01-01T00:00:00Z")
    assert counted["count"] > 0
    page.click("[aria-label='Remove the filter model is not support']")
    wait_for(page, "location.search.split('not_model=').length === 2")
    assert faults.found == []


def test_a_linked_request_has_neighbours_that_the_list_does_not_show(open_page: OpenPage, filled: Service) -> None:
    rows = admin(filled, "/inferences", team="support", limit=120)["data"]
    assert len(rows) > 60, "more than a page"
    page, _ = open_page()
    page.goto(f"/dashboard/requests?team=support&range=30d&id={rows[60]['id']}")
    page.wait_for_selector(".drawer .why li")
    wait_for(page, "!document.querySelector('[aria-label^=\"Older request\"]').disabled")
    page.keyboard.press("j")
    wait_for(page, f"location.search.includes('{rows[61]['id']}')")
    page.wait_for_selector(".drawer .why li")
    for expected in (60, 59):
        wait_for(page, "!document.querySelector('[aria-label^=\"Newer request\"]').disabled")
        page.keyboard.press("k")
        wait_for(page, f"location.search.includes('{rows[expected]['id']}')")
    page.goto(f"/dashboard/requests?team=support&range=30d&not_outcome=answered&id={rows[0]['id']}")
    others = [each for each in rows if each["outcome"] != "answered"]
    if others:
        wait_for(page, "!document.querySelector('[aria-label^=\"Older request\"]').disabled")
        page.click("[aria-label^='Older request']")
        wait_for(page, f"location.search.includes('{others[0]['id']}')")


def test_settings_are_searched_and_hold_no_secret(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    page.goto("/dashboard/settings")
    settle(page)
    listed = admin(filled, "/settings")["data"]
    assert page.locator("table tbody tr").count() == len(listed)
    page.fill("[aria-label='Search in settings']", "redis_url")
    wait_for(page, "location.search.includes('search=redis_url')")
    assert 0 < page.locator("table tbody tr").count() < 10
    assert "not shown" in page.inner_text("table")
    page.click("text=Doctor >> nth=-1")
    page.wait_for_selector(".findings li, .fault-box", timeout=70_000)
    assert faults.found == []
