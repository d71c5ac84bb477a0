"""The playground: somebody tries models, alone and side by side, stops, goes on, and takes the request away as code."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.browser.conftest import AXE, PICTURES, Faults, settle, wait_for
from tests.browser.test_screens import look_at
from tests.support.processes.service import Service

OpenPage = Callable[..., tuple[Any, Faults]]
TALK = "[role=log]"
OVER = "!document.querySelector('[role=log] [aria-busy=true]') && !!document.querySelector('.play-facts, .play-fault')"
ROUTE = "**/admin/v1/playground/chat/completions"


def write(page: Any, text: str) -> None:
    page.fill("#message", text)
    page.keyboard.press("Control+Enter")


def stub_stream(page: Any, body: str | None) -> None:
    """Answer with this stream instead of the service, until page.unroute(); None: the connection breaks."""

    def answer(route: Any) -> None:
        if body is None:
            route.abort()
        else:
            route.fulfill(status=200, content_type="text/event-stream", body=body)

    page.route(ROUTE, answer)


def new_key(service: Service, team: str = "support", **restrictions: Any) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {service.admin_key}"}
    body = {"team": team, "name": "of a page", **restrictions}
    response = httpx2.post(f"{service.url}/admin/v1/keys", json=body, headers=headers, timeout=60, trust_env=False)
    response.raise_for_status()
    return response.json()


def test_model_answers_streamed_and_its_request_is_a_click_away(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    page.goto("/dashboard/playground?model=sandbox&max_tokens=24")
    settle(page)
    write(page, "Where is my parcel?")
    wait_for(page, OVER)
    assert "Where is my parcel?" in page.inner_text(TALK)
    facts = page.inner_text(".play-facts")
    assert "24 tokens" in facts and "$" in facts and "sandbox/sandbox" in facts, facts
    page.click(".play-facts a")
    page.wait_for_selector(".drawer")
    for _ in range(40):  # its record comes a moment later
        if page.locator(".drawer .why li").count():
            break
        page.wait_for_timeout(500)
        if page.locator(".drawer >> text=Try again").count():
            page.click(".drawer >> text=Try again")
    page.wait_for_selector(".drawer .why li")
    page.go_back()
    assert "Where is my parcel?" in page.inner_text(TALK), "what was said is still here"
    assert [each for each in faults.found if "404" not in each] == []


def test_two_models_answer_side_by_side_and_the_conversation_goes_on(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    page.goto("/dashboard/playground?model=sandbox&with=support&compare=1&max_tokens=12")
    settle(page)
    write(page, "First question")
    wait_for(page, "document.querySelectorAll('.play-facts').length === 2")
    with page.expect_request(ROUTE) as sent:
        write(page, "Second question")
    messages = json.loads(sent.value.post_data)["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "user"]
    wait_for(page, "document.querySelectorAll('.play-facts').length === 4")
    page.screenshot(path=PICTURES / "playground-two.png")
    assert faults.found == []


def test_a_stream_is_stopped_and_sent_again(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    page.goto("/dashboard/playground?model=sandbox")
    settle(page)
    page.click("summary >> text=More parameters")
    page.fill("#more", '{"sandbox": {"tokens": 3000, "chunk_delay_ms": 50}}')
    write(page, "Write a long story")
    page.wait_for_selector("[role=log] .message.assistant .text")
    page.click("button:text-is('Stop')")
    page.wait_for_selector(".message.assistant >> text=stopped")
    assert page.locator("text=Ask again").count() == 1
    page.fill("#more", "")
    page.fill("#max_tokens", "5")
    page.click("text=Ask again")
    wait_for(page, OVER)
    page.wait_for_selector(".play-facts >> text=5 tokens")
    assert faults.found == []


def test_refusals_are_shown_where_they_belong_and_pass_without_a_reload(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page()
    page.goto("/dashboard/playground?model=sandbox&temperature=9")
    settle(page)
    write(page, "Too warm")
    page.wait_for_selector("#temperature-about .fault")
    page.wait_for_selector(".play-fault")
    page.fill("#temperature", "1")
    page.fill("#max_tokens", "5")
    page.click(".play-fault >> text=Try again")
    wait_for(page, "!!document.querySelector('.play-facts') && !document.querySelector('.fault')")
    page.click("summary >> text=Tools")
    page.fill("#tools", "[{")
    write(page, "With broken tools")
    page.wait_for_selector("#tools-about .fault >> text=no JSON")
    assert page.input_value("#message") == "With broken tools"
    page.fill("#tools", "")
    page.fill("#model-0", "no-such-model")
    page.click("button:text-is('Send')")
    page.wait_for_selector("#model-0-about .fault >> text=no-such-model")


def test_a_stream_that_breaks_off_says_so_and_keeps_what_came(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page()
    page.goto("/dashboard/playground?model=sandbox&max_tokens=8")
    settle(page)
    half = 'data: {"choices":[{"delta":{"content":"Half a sen"}}]}\n\n'
    stub_stream(page, half)
    write(page, "Tell me")
    page.wait_for_selector(".play-fault >> text=broke off")
    assert "Half a sen" in page.inner_text(TALK)
    page.unroute(ROUTE)
    page.click(".play-fault >> text=Try again")
    wait_for(page, OVER)
    assert "Half a sen" not in page.inner_text(TALK)
    stub_stream(page, None)
    write(page, "And now?")
    page.wait_for_selector(".play-fault >> text=cannot be reached")
    page.unroute(ROUTE)
    failing = 'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: {"error":{"message":"The engine is gone."}}\n\n'
    stub_stream(page, failing)
    page.click(".play-fault >> text=Try again")
    page.wait_for_selector(".play-fault >> text=The engine is gone.")


def test_tools_are_called_and_their_results_go_back(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    page.goto("/dashboard/playground?model=sandbox&tool_choice=required&max_tokens=60")
    settle(page)
    page.click("summary >> text=Tools")
    page.click("text=Insert an example >> nth=0")
    write(page, "Find it")
    page.wait_for_selector(".message.assistant >> text=find_parcel")
    page.wait_for_selector("text=waits for the results")
    page.fill("#result-0-0", '{"at": "Berlin"}')
    with page.expect_request(ROUTE) as sent:
        page.click("text=Send the result >> nth=0")
    messages = json.loads(sent.value.post_data)["messages"]
    assert [each["role"] for each in messages[:3]] == ["user", "assistant", "tool"]
    assert messages[2]["tool_call_id"] == messages[1]["tool_calls"][0]["id"]
    wait_for(page, "document.querySelectorAll('.play-facts').length === 2")
    assert faults.found == []


def test_structured_output_is_requested_by_schema(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page()
    page.goto("/dashboard/playground?model=sandbox")
    settle(page)
    page.click("summary >> text=Structured output")
    page.click("#schema-about >> text=Insert an example")
    write(page, "Is it so?")
    wait_for(page, OVER)
    answer = page.locator(".message.assistant .text").last.inner_text()
    assert set(json.loads(answer)) == {"answer", "is_certain"}


def test_code_is_the_same_request_and_has_no_key(open_page: OpenPage, filled: Service) -> None:
    page, faults = open_page()
    page.goto("/dashboard/playground?model=sandbox&temperature=0.2")
    settle(page)
    page.fill("#system", "Be 'short'.")
    page.fill("#message", 'Say "hi"')
    page.click("text=Code")
    for name, expected in (("curl", "$NARTHEX_KEY"), ("python", 'os.environ["NARTHEX_KEY"]'), ("javascript", "process.env.NARTHEX_KEY")):
        page.click(f"#tab-{name}")
        code = page.inner_text(f"#panel-{name} pre")
        assert expected in code and "0.2" in code and "Be 'short'." in code and filled.admin_key not in code
        assert f"{filled.url}/v1" in code
        if name == "python":
            compile(code, "snippet", "exec")
    page.click("dialog >> text=Close")
    assert faults.found == []


def test_address_has_the_settings_and_nothing_that_was_written(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page()
    page.goto("/dashboard/playground?model=sandbox")
    settle(page)
    page.fill("#system", "A secret of the firm")
    page.fill("#message", "Another secret")
    page.fill("#temperature", "0.5")
    page.select_option("#effort", "low")
    assert "temperature=0.5" in page.url and "effort=low" in page.url and "secret" not in page.url
    stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert "secret" not in stored
    page.reload()
    settle(page)
    assert page.input_value("#temperature") == "0.5" and page.input_value("#system") == ""


def test_admin_chooses_whose_key_it_runs_with(open_page: OpenPage, filled: Service) -> None:
    key = new_key(filled, models=["sandbox"])
    page, faults = open_page()
    page.goto("/dashboard/playground?max_tokens=5")
    settle(page)
    page.select_option("#as", key["prefix"])
    wait_for(page, "document.querySelectorAll('#model-0-list option').length === 1")
    with page.expect_request(ROUTE) as sent:
        write(page, "In their name")
    assert sent.value.headers["x-narthex-key"] == key["prefix"]
    wait_for(page, OVER)
    assert faults.found == []


SIZES = [(1440, "light"), (1440, "dark"), (390, "light"), (320, "dark")]


@pytest.mark.parametrize(("width", "theme"), SIZES)
def test_playground_fits_and_can_be_read(open_page: OpenPage, filled: Service, width: int, theme: str) -> None:
    page, faults = open_page(width, theme)
    axe = AXE.read_text()
    page.goto("/dashboard/playground?model=sandbox&with=support&compare=1&max_tokens=40&temperature=0.4")
    settle(page)
    assert look_at(page, axe) == []
    write(page, "Where is my parcel? It was due on Tuesday.")
    wait_for(page, "document.querySelectorAll('.play-facts').length === 2")
    assert look_at(page, axe) + faults.found == []
    page.screenshot(path=PICTURES / f"playground-{width}-{theme}.png", full_page=True)
    page.click("text=Code")
    assert look_at(page, axe) == []
    page.screenshot(path=PICTURES / f"playground-code-{width}-{theme}.png")
