"""An installation that nothing has come to: the steps to the first request, of which those that are done are marked."""

from collections.abc import Generator
from typing import Any

import httpx2
import pytest

from tests.browser.conftest import AXE, settle, wait_for
from tests.browser.test_screens import look_at
from tests.support.processes import service as services
from tests.support.processes.service import Service


@pytest.fixture(scope="module")
def empty() -> Generator[Service]:
    running = services.start()
    try:
        yield running
    finally:
        services.stop(running)


def test_steps_lead_from_nothing_to_the_first_request(empty: Service, chromium: Any) -> None:
    headers = {"authorization": f"Bearer {empty.admin_key}"}
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, base_url=empty.url, locale="en-GB", reduced_motion="reduce")
    try:
        answer = context.request.post("/admin/v1/sign-in/key", data={"key": empty.admin_key}, headers={"origin": empty.url})
        assert answer.status == 200
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto("/dashboard")
        page.wait_for_selector(".steps")
        settle(page)
        assert "sandbox answers at once" in page.inner_text("main")
        assert look_at(page, AXE.read_text()) == []
        page.click("text=New provider")
        page.fill("#name", "gpu")
        page.fill("#adapter", "vllm")
        page.fill("#base_url", "http://127.0.0.1:9")
        page.click("button:has-text('Check and review')")
        page.click("form button:has-text('Create')")
        page.wait_for_selector("table >> text=gpu")
        model = {"name": "qwen3", "targets": [{"provider": "gpu", "model": "Qwen/Qwen3-4B"}]}
        httpx2.post(f"{empty.url}/admin/v1/models", json=model, headers=headers, trust_env=False, timeout=60).raise_for_status()
        page.goto("/dashboard")
        page.wait_for_selector(".steps li.done >> nth=1")
        assert '"model": "qwen3"' in page.inner_text(".steps pre")
        key = empty.key
        sent = {"model": "sandbox", "messages": [{"role": "user", "content": "Hello!"}]}
        first = httpx2.post(f"{empty.url}/v1/chat/completions", json=sent, headers={"authorization": f"Bearer {key}"}, trust_env=False)
        first.raise_for_status()
        # The overview asks again by itself each minute; whoever does not wait loads it again.
        for _ in range(60):
            page.goto("/dashboard")
            wait_for(page, "document.querySelector('.steps, .tiles')")
            if page.locator(".tiles").count():
                break
            page.wait_for_timeout(500)
        assert page.locator(".tiles").count()
    finally:
        context.close()
