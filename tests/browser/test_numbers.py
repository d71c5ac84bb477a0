"""The figures of each screen are those that Postgres counts on the same rows, and have one form wherever they are shown."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Faults, settle, wait_for
from tests.browser.sql import rows_of
from tests.support.processes.service import Service

OpenPage = Callable[..., tuple[Any, Faults]]
DAYS = "range=30d"  # all of the history


def compact(number: int) -> str:
    if number < 10_000:
        return f"{number:,}"
    scale, unit = (1_000_000, "M") if number >= 999_950 else (1000, "K")
    return f"{number / scale:.1f}".removesuffix(".0") + unit


def money(microusd: int) -> str:
    usd = microusd / 1_000_000
    if usd == 0:
        return "$0"
    return f"${usd:.4f}" if usd < 0.1 else f"${usd:.2f}" if usd < 100 else f"${usd:,.0f}"


def share(part: int, whole: int, digits: int) -> str:
    percent = 100 * part / whole
    return f"{percent:.0f} %" if part in (0, whole) else f"{percent:.{digits}f} %"


def digits(text: str) -> int:
    return int("".join(re.findall(r"[0-9]", text)))


def table(page: Any, label: str) -> list[list[str]]:
    """The texts of the cells; the first one's is its link, without tags beside it."""
    found: list[list[str]] = []
    for row in page.locator(f"[aria-label='{label}'] tbody tr").all():
        cells = [cell.strip() for cell in row.locator("th, td").all_inner_texts()]
        links = row.locator("th a").all_inner_texts()
        found.append([links[0] if links else cells[0], *cells[1:]])
    return found


@pytest.fixture
def show(open_page: OpenPage) -> Callable[[str], Any]:
    page, _ = open_page()

    def go(address: str) -> Any:
        page.goto(f"/dashboard{address}")
        settle(page)
        return page

    return go


def test_overview(show: Callable[[str], Any], filled: Service) -> None:
    [(requests, failed, cost, unpriced)] = rows_of(
        filled,
        "SELECT count(*), count(*) FILTER (WHERE outcome = 'failed'), sum(cost_microusd)::bigint,"
        " count(*) FILTER (WHERE cost_microusd IS NULL) FROM inferences",
    )
    page = show(f"?{DAYS}")
    tiles = {each.locator(".label").inner_text(): each for each in page.locator("a.tile").all()}
    assert digits(tiles["Requests"].get_attribute("title")) == requests
    assert tiles["Requests"].locator(".value").inner_text() == compact(requests)
    assert digits(tiles["Failed"].get_attribute("title")) == failed
    assert tiles["Failed"].locator(".value").inner_text() == share(failed, requests, 2)
    cost_tile = next(each for label, each in tiles.items() if label.startswith("Cost"))
    assert cost_tile.locator(".value").inner_text() == money(cost)
    assert f"{unpriced:,} requests without a price" in cost_tile.get_attribute("title")
    by_model = rows_of(
        filled,
        "SELECT model, count(*), count(*) FILTER (WHERE outcome = 'failed'), coalesce(sum(cost_microusd), 0)::bigint FROM inferences"
        " GROUP BY model ORDER BY count(*) DESC, model LIMIT 8",
    )
    shown = [[name, requests, failed, cost] for name, requests, failed, _, cost in table(page, "Models and functions")]
    assert shown == [[model, compact(number), share(bad, number, 1), money(cost)] for model, number, bad, cost in by_model]


def test_latency_of_the_overview_is_that_of_the_rows(show: Callable[[str], Any], filled: Service) -> None:
    """Sketches of quantiles are within 2 %, and a duration is shown in two or three digits."""
    [(p95,)] = rows_of(filled, "SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY duration_us)::bigint FROM inferences")
    page = show(f"?{DAYS}")
    text = page.locator("a.tile", has_text="Latency, p95").locator(".value").inner_text()
    number, unit = text.split(" ")
    shown_us = float(number) * {"ms": 1000, "s": 1_000_000}[unit]
    assert abs(shown_us - p95) <= 0.03 * p95


@pytest.mark.parametrize(
    ("filters", "condition"),
    [
        ("", "true"),
        ("&outcome=failed", "outcome = 'failed'"),
        ("&team=team-3", "teams.name = 'team-3'"),
        ("&model=model-1&team=team-3", "model = 'model-1' AND teams.name = 'team-3'"),
    ],
)
def test_requests(show: Callable[[str], Any], filled: Service, filters: str, condition: str) -> None:
    [(number,)] = rows_of(filled, f"SELECT count(*) FROM inferences LEFT JOIN teams ON teams.id = team_id WHERE {condition}")
    page = show(f"/requests?{DAYS}{filters}")
    wait_for(page, "/[0-9] requests?/.test(document.querySelector('.about')?.textContent ?? '')")
    assert digits(page.inner_text(".about").split("request")[0]) == number


def test_refusals(show: Callable[[str], Any], filled: Service) -> None:
    [(refused,)] = rows_of(
        filled, "SELECT sum(requests)::bigint FROM rollups_by_hour JOIN rollup_groups g ON g.id = group_id WHERE outcome = 'refused'"
    )
    [(sampled,)] = rows_of(filled, "SELECT count(*) FROM refusals")
    page = show(f"/requests?show=refused&{DAYS}")
    wait_for(page, "/[0-9] refused/.test(document.querySelector('.about')?.textContent ?? '')")
    assert digits(page.inner_text(".about").split("refused")[0]) == refused
    assert len(table(page, "Refused requests")) == min(sampled, 50)


def test_conversations(show: Callable[[str], Any], filled: Service) -> None:
    rows = rows_of(
        filled,
        "SELECT max(episode_name), count(*), count(*) FILTER (WHERE outcome <> 'answered'), sum(cost_microusd)::bigint FROM inferences"
        " WHERE episode_name LIKE 'support-%' GROUP BY team_id, episode_id",
    )
    page = show(f"/conversations?team=support&{DAYS}")
    while page.locator(".more button").count():
        before = page.locator("[aria-label='Conversations'] tbody tr").count()
        page.click(".more button")
        wait_for(page, f"document.querySelectorAll('[aria-label=Conversations] tbody tr').length > {before}")
    shown = {row[1]: [row[6], row[7], row[8]] for row in table(page, "Conversations")}
    assert shown == {name: [str(turns), str(failed), money(cost)] for name, turns, failed, cost in rows}


def test_cost(show: Callable[[str], Any], filled: Service) -> None:
    for by, column in (("team", "teams.name"), ("model", "model")):
        rows = rows_of(
            filled,
            f"SELECT {column}, sum(cost_microusd)::bigint, count(*), count(*) FILTER (WHERE cost_microusd IS NULL) FROM inferences"
            f" LEFT JOIN teams ON teams.id = team_id GROUP BY {column}",
        )
        page = show(f"/cost?by={by}&{DAYS}")
        # Refusals without a team stand there, too: they are no requests that were recorded.
        shown = {row[0]: [row[1], row[3], row[8]] for row in table(page, f"Cost by {by}") if row[3] != "0"}
        assert shown == {name: [money(cost or 0), compact(number), f"{unpriced:,}"] for name, cost, number, unpriced in rows}
        total = page.locator("li.tile", has_text="Cost").first.locator(".value").inner_text()
        assert total == money(sum(cost or 0 for _, cost, _, _ in rows))


def test_keys_and_teams(show: Callable[[str], Any], filled: Service) -> None:
    rows = rows_of(
        filled,
        "SELECT 'nx-' || prefix, count(inferences.id), count(*) FILTER (WHERE outcome = 'failed'),"
        " coalesce(sum(cost_microusd), 0)::bigint FROM keys JOIN teams ON teams.id = keys.team_id"
        " LEFT JOIN inferences ON key_id = keys.id WHERE teams.name IN ('support', 'team-3') AND revoked_at IS NULL GROUP BY prefix",
    )
    shown: dict[str, list[str]] = {}
    for team in ("support", "team-3"):
        page = show(f"/teams?team={team}&{DAYS}")
        shown |= {row[0]: [row[4], row[5], row[6]] for row in table(page, "Keys")}
    assert shown == {prefix: [compact(number), f"{failed:,}", money(cost)] for prefix, number, failed, cost in rows}
    counted = dict(
        rows_of(
            filled,
            "SELECT teams.name, count(keys.id) FROM teams LEFT JOIN keys ON keys.team_id = teams.id AND revoked_at IS NULL"
            " AND (expires_at IS NULL OR expires_at > now()) GROUP BY teams.name",
        )
    )
    page = show("/teams?tab=teams")
    assert {row[0]: int(row[1]) for row in table(page, "Teams")} == counted


def test_budgets(show: Callable[[str], Any], filled: Service) -> None:
    spent = dict(
        rows_of(
            filled, "SELECT teams.name, sum(cost_microusd)::bigint FROM inferences JOIN teams ON teams.id = team_id GROUP BY teams.name"
        )
    )
    page = show("/limits")
    found: dict[str, str] = {}
    for row in page.locator(".budget-rows > li").all():
        found[row.locator(".budget-name b").inner_text().split(" in a month")[0]] = row.locator(".budget-use b").first.inner_text()
    teams = ("support", "search", "mobile")  # of the history; other tests have budgets of their own
    assert {team: found[team] for team in teams} == {team: money(spent[team]) for team in teams}


def test_functions_and_experiments(show: Callable[[str], Any], filled: Service) -> None:
    rows = rows_of(
        filled,
        "SELECT variant, count(*), count(DISTINCT experiment_unit) FILTER (WHERE not_enrolled IS NULL)"
        " FROM inferences WHERE function = 'support' GROUP BY variant",
    )
    page = show(f"/functions/support?{DAYS}")
    # A variant without a request stands there, too.
    assert {row[0]: row[2] for row in table(page, "Variants") if row[2] != "0"} == {name: compact(number) for name, number, _ in rows}
    page = show(f"/experiments/support?{DAYS}")
    assert {row[0]: row[2] for row in table(page, "Arms") if row[2] != "0"} == {arm: f"{units:,}" for arm, _, units in rows if units}


def test_fleet_and_models(show: Callable[[str], Any], filled: Service) -> None:
    [(models, providers)] = rows_of(filled, "SELECT (SELECT count(*) FROM models), (SELECT count(*) FROM providers)")
    page = show("/models")
    assert page.locator("[aria-label='Models'] tbody tr").count() == models
    page = show("/models?tab=providers")
    assert page.locator("[aria-label='Providers'] tbody tr").count() == providers
    page = show("/fleet")
    assert len({row[0] for row in table(page, "Gateway processes")}) == 1
