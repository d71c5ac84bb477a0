"""Ten questions of people who run models, each answered in at most three clicks from the overview, as SQL answers it.

A choice in a list and words that are typed and sent count as clicks. What is clicked is found as a reader finds it: by its words.
"""

import datetime
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from app.store.formats.content_packing import unpack_within
from tests.browser.conftest import Faults, settle
from tests.browser.sql import rows_of
from tests.support.processes.service import Service

OpenPage = Callable[..., tuple[Any, Faults]]
MOST_CLICKS = 3


class Reader:
    """Somebody who begins at the overview and clicks what can be seen."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.clicks = 0
        page.goto("/dashboard")
        settle(page)

    def _count(self) -> None:
        self.clicks += 1
        assert self.clicks <= MOST_CLICKS, "that is one click too many"

    def follow(self, name: str | re.Pattern[str], within: str = "body", role: str = "link") -> None:
        """Clicks the first link or button with this name."""
        self._count()
        self.page.locator(within).get_by_role(role, name=name).filter(visible=True).first.click()
        settle(self.page)

    def choose(self, label: str, text: str) -> None:
        self._count()
        self.page.get_by_role("combobox", name=label, exact=True).select_option(label=text)
        settle(self.page)

    def search(self, label: str, text: str) -> None:
        self._count()
        self.page.get_by_label(label).fill(text)
        self.page.keyboard.press("Enter")
        settle(self.page)

    def text(self, selector: str) -> str:
        self.page.wait_for_selector(selector)
        return self.page.locator(selector).first.inner_text()

    @property
    def shown_id(self) -> str:
        """The id of the request that is open."""
        self.page.wait_for_selector(".drawer .why li")
        return self.page.evaluate("new URLSearchParams(location.search).get('id')")


@pytest.fixture
def reader(open_page: OpenPage) -> Reader:
    page, _ = open_page()
    return Reader(page)


def test_who_spent_most_yesterday_and_on_what(reader: Reader, filled: Service) -> None:
    zone = reader.page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
    yesterday = f"(now() AT TIME ZONE '{zone}')::date - 1"
    spent = f"""
        SELECT teams.name, model, sum(cost_microusd)::bigint AS cost FROM inferences JOIN teams ON teams.id = team_id
        WHERE (received_at AT TIME ZONE '{zone}')::date = {yesterday} GROUP BY 1, 2
    """
    [(team,)] = rows_of(filled, f"SELECT name FROM ({spent}) AS spent GROUP BY 1 ORDER BY sum(cost) DESC LIMIT 1")
    [(model, cost)] = rows_of(filled, f"SELECT model, cost FROM ({spent}) AS spent WHERE name = '{team}' ORDER BY cost DESC LIMIT 1")
    reader.choose("Time", "Yesterday")
    reader.follow(re.compile("^Cost"), within=".tiles")
    assert reader.text("[aria-label='Cost by team'] tbody th") == team
    reader.follow(team, within="[aria-label='Cost by team']")
    row = reader.text("[aria-label='Cost by model'] tbody tr")
    assert row.split()[0] == model and f"{cost / 1e6:.2f}" in row.replace(",", "")


def test_why_a_request_was_slow(reader: Reader, filled: Service) -> None:
    reader.follow(re.compile("Latency, p95"), within=".tiles")
    reader.follow(re.compile("."), within="table.list tbody")
    [(duration_us,)] = rows_of(filled, f"SELECT duration_us FROM inferences WHERE id = '{reader.shown_id}'")
    why = reader.text(".drawer .why li:has-text('long?'), .drawer .why li:has-text('slow?')")
    assert any(each == pytest.approx(duration_us / 1e6, rel=0.01) for each in seconds(why)), why


def seconds(text: str) -> list[float]:
    return [float(number) / (1000 if unit == "ms" else 1) for number, unit in re.findall(r"([0-9.]+) (ms|s)\b", text)]


def test_why_a_request_was_refused_and_when_it_passes(reader: Reader, filled: Service) -> None:
    reader.follow(re.compile("^Refused"), within=".tiles")
    newest = "SELECT message, rule, received_at FROM refusals WHERE rule IS NOT NULL ORDER BY id DESC LIMIT 1"
    [(message, rule, received_at)] = rows_of(filled, newest)
    row = reader.page.locator("[aria-label='Refused requests'] tbody tr", has_text=rule).first
    cells = row.locator("td").all_inner_texts()
    assert message in cells[2].replace("\n", " ")
    passes_at = datetime.datetime.fromisoformat(row.locator("[data-name=passes] time").get_attribute("datetime"))
    # Of any minute, which is counted in sixteenths, of which a seventeenth may hold the oldest requests; and whole seconds are said.
    assert received_at < passes_at <= received_at + datetime.timedelta(seconds=60 * 17 / 16 + 1)


def test_why_it_went_to_that_engine(reader: Reader, filled: Service) -> None:
    reader.follow("Requests", within="nav")
    reader.follow(re.compile("."), within="table.list tbody:has(td)")
    [(provider, model)] = rows_of(filled, f"SELECT served_provider, served_model FROM inferences WHERE id = '{reader.shown_id}'")
    why = reader.text(".drawer .why li:has-text('Why there?')")
    assert (provider is None) or (provider in why and model in why), why


def test_which_arm_is_better_and_whether_one_may_stop(reader: Reader, filled: Service) -> None:
    reader.follow("Experiments", within="nav")
    reader.follow("support", within="[aria-label=Experiments]")
    conclusion = reader.text(".verdict h2")
    assert conclusion
    enrolled = dict(
        rows_of(
            filled,
            "SELECT variant, count(DISTINCT episode_id) FROM inferences WHERE experiment = 'support' AND not_enrolled IS NULL"
            " AND variant IS NOT NULL GROUP BY 1",
        )
    )
    text = reader.page.locator("main").inner_text()
    assert set(enrolled) == {"plain", "friendly"} and all(arm in text for arm in enrolled)


def test_which_key_is_unused_for_thirty_days(reader: Reader, filled: Service) -> None:
    # All keys of the history are of today.
    rows_of(filled, "UPDATE keys SET created_at = now() - interval '40 days'")
    unused = rows_of(
        filled,
        "SELECT 'nx-' || prefix FROM keys WHERE created_at < now() - interval '30 days' AND NOT EXISTS"
        " (SELECT FROM usage WHERE usage.key_id = keys.id AND hour > now() - interval '30 days')",
    )
    reader.follow("Teams and keys", within="nav")
    reader.follow("unused for 30 days")
    shown = reader.page.locator("[aria-label=Keys] tbody th").all_inner_texts()
    assert set(shown) == {prefix for (prefix,) in unused}
    assert 0 < len(shown) < rows_of(filled, "SELECT count(*) FROM keys")[0][0]


def test_whether_an_invoice_agrees(reader: Reader, filled: Service) -> None:
    """The history has requests at that host, with costs; the invoice says twelve dollars for the input of one model."""
    filled.apply('[providers.openai]\nadapter = "openai"\nbase_url = "http://127.0.0.1:9"')
    day = datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(days=3)
    [(recorded, model)] = rows_of(
        filled,
        "SELECT sum(cost_microusd)::bigint, min(served_model) FROM inferences WHERE served_provider = 'openai'"
        f" AND (received_at AT TIME ZONE 'UTC')::date = '{day}'",
    )
    begin = int(datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp())
    export = f'start_time,amount_value,amount_currency,line_item\n{begin},12,usd,"{model}, input"\n'.encode()
    reader.follow("Cost", within="nav")
    reader.page.get_by_label("Export", exact=True).set_input_files([{"name": "usage.csv", "mimeType": "text/csv", "buffer": export}])
    reader.follow("Compare", role="button")
    said = reader.text("p:has-text('we recorded')")
    assert f"we recorded ${recorded / 1e6:.2f}, they say $12.00" in said, said
    assert reader.page.locator("[aria-label='Lines that differ'] tbody tr").count() > 0


def test_what_was_changed_before_errors_rose(reader: Reader, filled: Service) -> None:
    changes = rows_of(filled, "SELECT action, name FROM audit_log ORDER BY id DESC LIMIT 100")
    reader.follow("Audit and history", within="nav")
    shown = reader.page.locator("[aria-label=Events] tbody tr").all_inner_texts()
    assert shown
    for text, (action, name) in zip(shown, changes, strict=False):
        assert action.replace("_", " ") in text and name in text


def test_text_of_a_user_in_the_third_turn(reader: Reader, filled: Service) -> None:
    [(user, episode_name)] = rows_of(
        filled,
        "SELECT min(end_user), episode_name FROM inferences WHERE episode_name LIKE 'support-%' GROUP BY 2 HAVING count(*) >= 3"
        " ORDER BY min(id::text) DESC LIMIT 1",
    )
    [(packed,)] = rows_of(
        filled,
        "SELECT request FROM inference_content JOIN inferences USING (id)"
        f" WHERE episode_name = '{episode_name}' ORDER BY inferences.id OFFSET 2 LIMIT 1",
    )
    request = msgspec.json.decode(unpack_within(packed, 1_000_000) or b"")
    reader.follow("Conversations", within="nav")
    reader.search("Only of an end user", user)
    reader.follow(episode_name, within="[aria-label=Conversations]")
    third = reader.page.locator("[aria-label=Turns] tbody tr").nth(2).inner_text()
    assert request["messages"][-1]["content"] in third


def test_which_budget_ends_first(reader: Reader, filled: Service) -> None:
    """The one whose team has spent the largest part of it this month: they all began when the month did."""
    spent = rows_of(
        filled,
        "SELECT budget.name, coalesce(sum(usage.cost_microusd), 0)::float8 / 1e6 / (budget.config ->> 'amount')::float8 AS used"
        " FROM limits AS budget JOIN teams ON teams.name = budget.config -> 'scope' ->> 'team'"
        " LEFT JOIN usage ON usage.team_id = teams.id AND usage.hour >= date_trunc('month', now(), 'UTC')"
        " WHERE budget.config ->> 'per' = 'month' GROUP BY 1, budget.config ORDER BY 2 DESC",
    )
    assert reader.text(".budget-list li a") == spent[0][0]
    reader.follow(spent[0][0])
    assert reader.text(".budget-rows li .budget-name b") == spent[0][0]
