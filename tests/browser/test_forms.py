"""Forms that are made from the schemas of operations: refusals are shown at their fields, and of two editors neither loses anything."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import httpx2
import pytest

from tests.browser.conftest import Faults, settle, wait_for
from tests.support.processes.service import Service

OpenPage = Callable[..., tuple[Any, Faults]]


@pytest.fixture
def name() -> str:
    return f"form-{uuid.uuid4().hex[:8]}"


def request(service: Service, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> httpx2.Response:
    sent = {"authorization": f"Bearer {service.admin_key}", **(headers or {})}
    return httpx2.request(method, f"{service.url}/admin/v1{path}", json=body, headers=sent, timeout=60, trust_env=False)


def field(page: Any, path: str) -> Any:
    """The field of a form, by the name that the API has for it."""
    return page.locator(f'[id="{path}"]')


def fault(page: Any, path: str) -> str:
    return page.locator(f'[id="{path}-about"] .fault').inner_text()


def check(page: Any) -> None:
    page.click("button:has-text('Check and review')")


def test_a_provider_is_made_tested_changed_and_deleted(open_page: OpenPage, filled: Service, name: str) -> None:
    page, faults = open_page()
    page.goto("/dashboard/models?tab=providers")
    settle(page)
    page.click("text=New provider")
    field(page, "name").fill(name)
    field(page, "adapter").fill("nonesuch")
    check(page)
    wait_for(page, "document.querySelector('[id=\"adapter-about\"] .fault')")
    assert "there is no adapter 'nonesuch'" in fault(page, "adapter")
    wait_for(page, "document.activeElement.id === 'adapter'")
    field(page, "adapter").fill("vllm")
    field(page, "base_url").fill("http://127.0.0.1:9")
    page.click("text=Test these settings")
    page.wait_for_selector("text=It does not work.", timeout=60_000)
    assert request(filled, "GET", f"/providers/{name}").status_code == 404, "a test saves nothing"
    check(page)
    page.wait_for_selector(".review .diff .new >> text=http://127.0.0.1:9")
    assert request(filled, "GET", f"/providers/{name}").status_code == 404, "a check saves nothing"
    page.click("form button:has-text('Create')")
    page.wait_for_selector(f"table >> text={name}")
    assert request(filled, "GET", f"/providers/{name}").json()["base_url"] == "http://127.0.0.1:9"

    page.locator("tr", has_text=name).locator("text=Change …").click()
    page.wait_for_selector("form")
    assert field(page, "name").is_disabled() and field(page, "adapter").input_value() == "vllm"
    field(page, "base_url").fill("http://127.0.0.1:10")
    check(page)
    assert "http://127.0.0.1:9" in page.inner_text(".diff .gone") and "http://127.0.0.1:10" in page.inner_text(".diff .new")
    page.click("form button:has-text('Save')")
    page.wait_for_selector(f"table >> text={name}")
    assert request(filled, "GET", f"/providers/{name}").json()["base_url"] == "http://127.0.0.1:10"

    page.goto(f"/dashboard/models?tab=providers&edit={name}")
    page.click("text=Delete …")
    page.fill("#confirm-name", name)
    page.click("dialog button:has-text('Delete')")
    page.wait_for_selector("h1 >> text=Models and prices")
    assert request(filled, "GET", f"/providers/{name}").status_code == 404
    # The browser itself says of each refused request that it was refused.
    assert [each for each in faults.found if "400" not in each] == []


def test_a_refusal_within_a_list_is_shown_at_its_field(open_page: OpenPage, filled: Service, name: str) -> None:
    page, _ = open_page(390)
    page.goto("/dashboard/models?new=1")
    field(page, "name").fill(name)
    page.click("text=Add a target")
    field(page, "targets[0].provider").fill("sandbox")
    field(page, "targets[0].model").fill("sandbox")
    page.click("text=Add a target")
    field(page, "targets[1].provider").fill("nonesuch")
    field(page, "targets[1].model").fill("m")
    check(page)
    wait_for(page, "document.activeElement.id === 'targets[1].provider'")
    assert "there is no provider 'nonesuch'" in fault(page, "targets[1].provider")
    page.click("text=Remove target 2")
    page.locator(".more-fields > summary").last.click()
    field(page, "retries").fill("99")
    check(page)
    wait_for(page, "document.activeElement.id === 'retries'")
    field(page, "retries").fill("1")
    field(page, "fallback_on").fill("{")
    assert fault(page, "fallback_on") == "This is no JSON yet."
    field(page, "fallback_on").fill("")
    check(page)
    page.click("form button:has-text('Create')")
    page.wait_for_selector(f"h1 >> text={name}")
    saved = request(filled, "GET", f"/models/{name}").json()
    assert saved["retries"] == 1 and [each["provider"] for each in saved["targets"]] == ["sandbox"]


def test_of_two_editors_neither_loses_anything(open_page: OpenPage, filled: Service, name: str) -> None:
    model = {"name": name, "targets": [{"provider": "sandbox", "model": "sandbox"}], "retries": 1, "context_length": 1000}
    assert request(filled, "POST", "/models", model).status_code == 201
    page, _ = open_page()
    page.goto(f"/dashboard/models?edit={name}")
    page.locator(".more-fields > summary").last.click()
    field(page, "retries").fill("2")
    field(page, "output_tokens").fill("77")
    theirs = {"retries": 3, "context_length": 2000}
    assert request(filled, "PATCH", f"/models/{name}", theirs, {"if-match": "*"}).status_code == 200
    check(page)
    page.wait_for_selector("text=Somebody else has changed this meanwhile")
    conflict = page.inner_text("[aria-label='A conflict']")
    assert "They changed Retries, Context length" in conflict or "They changed Context length, Retries" in conflict
    assert "You both changed Retries" in conflict
    page.click("text=Make my changes to theirs")
    check(page)
    page.click("form button:has-text('Save')")
    page.wait_for_selector(f"h1 >> text={name}")
    saved = request(filled, "GET", f"/models/{name}").json()
    assert (saved["retries"], saved["output_tokens"], saved["context_length"]) == (2, 77, 2000)


def test_a_change_between_review_and_save_is_a_conflict_too(open_page: OpenPage, filled: Service, name: str) -> None:
    metric = {"name": name, "kind": "float", "level": "inference"}
    assert request(filled, "POST", "/metrics", metric).status_code == 201
    page, _ = open_page()
    page.goto(f"/dashboard/feedback?tab=metrics&edit={name}")
    field(page, "description").fill("mine")
    check(page)
    page.wait_for_selector(".review .diff")
    assert request(filled, "PATCH", f"/metrics/{name}", {"optimize": "max"}, {"if-match": "*"}).status_code == 200
    page.click("form button:has-text('Save')")
    page.wait_for_selector("text=Somebody else has changed this meanwhile")
    page.click("text=Take theirs, leave mine")
    assert field(page, "description").input_value() == "" and field(page, "optimize").input_value() == "max"


def test_a_secret_is_stored_and_shown_to_nobody(open_page: OpenPage, filled: Service, name: str) -> None:
    page, _ = open_page()
    page.goto("/dashboard/models?tab=providers&new=1")
    field(page, "name").fill(name)
    page.click("text=Store a secret …")
    assert page.input_value("#credential-name") == name
    assert page.get_attribute("#credential-value", "type") == "password"
    page.fill("#credential-value", "sk-secret-of-a-test")
    page.click("dialog button:has-text('Store') >> nth=-1")
    page.wait_for_selector("dialog", state="detached")
    assert field(page, "credential").input_value() == f"store:{name}"
    assert "sk-secret-of-a-test" not in page.content()
    assert request(filled, "GET", f"/credentials/{name}").json()["key"] is not None
    assert "sk-secret-of-a-test" not in request(filled, "GET", f"/credentials/{name}").text


def test_a_price_has_numbers_steps_and_factors(open_page: OpenPage, filled: Service, name: str) -> None:
    page, _ = open_page()
    page.goto("/dashboard/models?tab=prices&new=1")
    field(page, "provider").fill("sandbox")
    field(page, "model").fill(name)
    field(page, "input").fill("-1")
    field(page, "output").fill("2.5")
    check(page)
    wait_for(page, "document.activeElement.id === 'input'")
    field(page, "input").fill("0.15")
    page.click(".more-fields > summary")
    field(page, "tiers").fill("batch = half")
    assert "is no number" in fault(page, "tiers")
    field(page, "tiers").fill("batch = 0.5")
    page.click("text=Add a step")
    field(page, "steps[0].above").fill("200000")
    field(page, "steps[0].input").fill("0.3")
    field(page, "steps[0].output").fill("5")
    check(page)
    page.click("form button:has-text('Create')")
    page.wait_for_selector(f"table >> text={name}")
    saved = request(filled, "GET", f"/prices/sandbox/{name}/always").json()
    assert (saved["input"], saved["tiers"], saved["steps"][0]["above"]) == (0.15, {"batch": 0.5}, 200_000)
    page.locator("tr", has_text=name).locator("text=Change …").click()
    page.wait_for_selector("form")
    assert field(page, "model").is_disabled() and field(page, "input").input_value() == "0.15"


def test_a_function_gets_its_variants_by_name(open_page: OpenPage, filled: Service, name: str) -> None:
    page, _ = open_page()
    page.goto("/dashboard/functions?new=1")
    field(page, "name").fill(name)
    field(page, "variants-new").fill("short")
    page.keyboard.press("Enter")
    field(page, "variants.short.model").fill("nonesuch")
    check(page)
    wait_for(page, "document.activeElement.id === 'variants.short.model'")
    field(page, "variants.short.model").fill("sandbox")
    page.locator(".item .more-fields > summary").click()
    field(page, "variants.short.system_template").fill("Be short.")
    check(page)
    page.click("form button:has-text('Create')")
    page.wait_for_selector(f"h1 >> text={name}")
    saved = request(filled, "GET", f"/functions/{name}").json()
    assert saved["variants"]["short"]["system_template"] == "Be short."
