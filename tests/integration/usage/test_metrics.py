"""The metrics of limits, the fleet, the writer and cost on the real page, and that alerts and dashboards name what is there."""

import asyncio
import contextlib
import itertools
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

INFRA = Path(__file__).parents[3] / "infra"
SOURCES = sorted(path for path in INFRA.rglob("*") if path.suffix in (".yml", ".yaml", ".json"))
NAME = re.compile(r"\bnarthex_[a-z0-9_]+")
CHAT: dict[str, Any] = {"model": "of-metrics", "messages": [{"role": "user", "content": "Hi"}]}


def parse(page: str) -> dict[str, float]:
    """The samples by name and labels, as they are written."""
    samples = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


@pytest.fixture
async def limited(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine) -> httpx2.AsyncClient:
    service.apply(f"""
        [providers]
        of-metrics = {{ adapter = "openai", base_url = "http://127.0.0.1:{engine.port}" }}
        [models]
        of-metrics = {{ targets = [{{ provider = "of-metrics", model = "engine-model" }}] }}
        [models.one-at-a-time]
        targets = [{{ provider = "of-metrics", model = "one", max_concurrency = 1 }}]
        timeouts = {{ queue_s = 60, first_token_s = 60, total_s = 60 }}
        [[prices]]
        provider = "of-metrics"
        model = "engine-model"
        input = 1000.0
        output = 2000.0
        [[limits]]
        name = "of-priced"
        scope = {{ model = "of-metrics" }}
        resource = "requests"
        amount = 3
        per = "hour"
        [[limits]]
        name = "tried"
        scope = {{ model = "one-at-a-time" }}
        resource = "requests"
        amount = 1
        per = "hour"
        dry_run = true
    """)
    return client


async def test_limits_the_fleet_the_writer_and_cost_are_on_the_page(limited: httpx2.AsyncClient, engine: ScriptedEngine):
    seen: dict[str, float] = {}

    async def count_during(request: ReceivedRequest) -> None:
        async def is_counted() -> bool:
            seen.update(parse((await limited.get("/metrics")).text))
            return seen.get("narthex_limit_reservations", 0) >= 1 and seen.get(in_flight, 0) >= 1

        await wait_until(is_counted, 20)
        await request.respond_completion()

    in_flight = 'narthex_endpoint_requests_in_flight{provider="of-metrics"}'
    engine.script = count_during
    assert (await limited.post("/v1/chat/completions", json=CHAT)).status_code == 200
    engine.script = ReceivedRequest.respond_completion
    statuses = [(await limited.post("/v1/chat/completions", json=CHAT)).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]

    expected = {
        'narthex_limit_grants_total{rule="of-priced"}': 3,
        'narthex_limit_refusals_total{rule="of-priced"}': 1,
        'narthex_cost_microusd_total{model="of-metrics"}': 3 * 7000,
        "narthex_limit_reservations": 0,
        in_flight: 0,
        "narthex_writer_connected": 1,
    }
    page: dict[str, float] = {}

    async def is_shown() -> bool:
        page.clear()
        page.update(parse((await limited.get("/metrics")).text))
        return (
            {name: page.get(name) for name in expected} == expected
            and sum(value for name, value in page.items() if name.startswith('narthex_endpoints{provider="of-metrics"')) == 1
            and page.get("narthex_writer_inferences_stored", 0) >= 3
            and page["narthex_writer_silent_seconds"] < 30
        )

    with contextlib.suppress(AssertionError):
        await wait_until(is_shown)
    assert await is_shown(), {name: value for name, value in page.items() if name in expected or "of-metrics" in name or "writer" in name}


async def test_alerts_and_dashboards_name_metrics_that_exist(limited: httpx2.AsyncClient, service: Service, engine: ScriptedEngine):
    named = {name: path.name for path in SOURCES for name in NAME.findall(path.read_text())}
    assert len(named) > 30 and {"prometheus-rules.yml", "narthex.json"} <= set(named.values())
    seen: set[str] = set()

    async def is_shown(*names: str) -> bool:
        seen.update(name.partition("{")[0] for name in parse((await limited.get("/metrics")).text))
        return seen.issuperset(names)

    async def hold(request: ReceivedRequest) -> None:
        await wait_until(lambda: is_shown("narthex_requests_waiting"), 50)
        await request.respond_completion()

    async def chat(model: str) -> int:
        return (await limited.post("/v1/chat/completions", json={**CHAT, "model": model})).status_code

    engine.script = hold
    assert await asyncio.gather(chat("one-at-a-time"), chat("one-at-a-time")) == [200, 200]  # the rule that is tried would refuse one
    engine.script = ReceivedRequest.respond_completion
    assert await chat("unreachable") == 502  # an attempt that fails
    while await chat("of-metrics") != 429:
        pass
    async with service.keyless_client() as stranger:
        assert (await stranger.post("/v1/chat/completions", json=CHAT)).status_code == 401
    with contextlib.suppress(AssertionError):
        await wait_until(lambda: is_shown(*named), 30)
    assert {name: source for name, source in named.items() if name not in seen} == {}


def test_the_dashboard_has_what_every_panel_needs():
    dashboard = json.loads((INFRA / "grafana" / "narthex.json").read_text())
    variables = {each["name"] for each in dashboard["templating"]["list"]}
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        queries = [target["expr"] for target in panel.get("targets", ())]
        assert panel["title"] and bool(queries) == (panel["type"] != "row"), panel["title"]
        used = {name for query in queries for name in re.findall(r"\$(\w+)", query)} - {"__rate_interval"}
        assert used <= variables and all(target["datasource"]["uid"] == "${datasource}" for target in panel.get("targets", ()))
        for query in queries:
            selected = re.findall(r"narthex_\w+(\{[^}]*\})?", query)
            assert all("$job" in labels and "$instance" in labels for labels in selected), query
    places = [panel["gridPos"] for panel in panels]
    assert not [
        (one, other)
        for one, other in itertools.combinations(places, 2)
        if one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    ]
    for topic in ("cost", "limits and refusals", "latency", "fleet", "writer"):
        assert any(topic in panel["title"].lower() for panel in panels if panel["type"] == "row"), topic


def test_alerts_are_whole_and_one_is_for_windows_that_refuse_after_a_loss():
    rules = [rule for group in yaml.safe_load((INFRA / "prometheus-rules.yml").read_text())["groups"] for rule in group["rules"]]
    assert all(
        {"alert", "expr", "labels", "annotations"} <= rule.keys() and {"summary", "description"} <= rule["annotations"].keys()
        for rule in rules
    )
    assert all(
        (rule["labels"]["severity"] in ("page", "ticket") and NAME.search(rule["expr"])) or rule["alert"] == "NarthexDown" for rule in rules
    )
    assert len({rule["alert"] for rule in rules}) == len(rules)
    headings = re.findall(r"^## (\w+)$", (INFRA.parent / "docs" / "runbooks.md").read_text("utf-8"), re.MULTILINE)
    assert headings == [rule["alert"] for rule in rules]
    assert all(rule["annotations"]["runbook"] == f"docs/runbooks.md#{rule['alert'].lower()}" for rule in rules)
    (refusing,) = [rule for rule in rules if rule["alert"] == "NarthexLimitsRefuseAfterLoss"]
    assert "narthex_limit_rules_refusing_after_loss > 0" in refusing["expr"] and refusing["labels"]["severity"] == "page"
