"""Metrics: values from engines and callers can neither break them nor let them grow without bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from app.domain import uuid7
from app.domain.exchange import Attempt, Exchange
from app.process.telemetry import Telemetry
from providers.canonical.chat import Usage
from providers.transport.transport import AddressConnections


def failed_exchange(usage: Usage) -> Exchange:
    id = uuid7.mint()
    attempt = Attempt("p", "m", "http://h", 0, 5, status=500, error="UpstreamFailed", message="of all kinds")
    return Exchange(id, id, "openai_chat", "m", "k", "t", "h", 0, 2_000_000, True, 200, "answered", usage=usage, attempts=(attempt,))


@pytest.mark.parametrize("tokens", [-1, 0, 2**31, 2**63, 10**400, None])
def test_invalid_token_count_adds_nothing_to_the_metrics(monkeypatch: pytest.MonkeyPatch, tokens: int | None):
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    telemetry = Telemetry(CollectorRegistry())
    telemetry.count_exchange(failed_exchange(Usage(input=tokens, output=7)))
    page = telemetry.render().decode()
    assert 'narthex_tokens_total{direction="input",model="m"} 0.0' in page
    assert 'narthex_tokens_total{direction="output",model="m"} 7.0' in page
    assert 'narthex_requests_total{model="m",outcome="answered",route="openai_chat",status="200"} 1.0' in page
    assert 'narthex_attempt_failures_total{error="UpstreamFailed",provider="p"} 1.0' in page


@given(st.lists(st.one_of(st.sampled_from([10_000, 25_000, 900_000_000]), st.integers(0, 2_000_000_000)), max_size=20))
def test_durations_are_counted_as_if_each_was_observed_by_itself(durations_us: list[int]):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
        telemetry, registry = Telemetry(CollectorRegistry()), CollectorRegistry()
        bounds = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
        expected = Histogram("narthex_request_duration_seconds", "", ("route", "model"), registry=registry, buckets=bounds)
        for duration_us in durations_us:
            telemetry.count_exchange(replace(failed_exchange(Usage()), duration_us=duration_us))
            expected.labels("openai_chat", "m").observe(duration_us / 1e6)
        page = telemetry.render().decode().splitlines()
    for line in generate_latest(registry).decode().splitlines():
        if "_bucket" in line or "_count" in line:
            assert line in page


def test_connections_and_waits_for_them_are_shown_by_address(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    telemetry = Telemetry(CollectorRegistry())
    telemetry.set_connections({"http://a:1": AddressConnections(2, 1, 3, 2)}, 2)
    for waited_s in (0.002, 2.0):
        telemetry.count_connection_wait("http://a:1", waited_s)
    page = telemetry.render().decode()
    for line in (
        'narthex_endpoint_connections{address="http://a:1",state="busy"} 2.0',
        'narthex_endpoint_connections{address="http://a:1",state="idle"} 1.0',
        'narthex_endpoint_requests_waiting{address="http://a:1"} 3.0',
        "narthex_endpoint_connections_max 2.0",
        'narthex_endpoint_connection_wait_seconds_count{address="http://a:1"} 2.0',
        'narthex_endpoint_connection_wait_seconds_sum{address="http://a:1"} 2.002',
    ):
        assert line in page.splitlines(), line
    telemetry.set_connections({}, 2)
    assert 'narthex_endpoint_connections{address="http://a:1",state="busy"} 0.0' in telemetry.render().decode().splitlines()


def test_further_models_count_as_other(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    monkeypatch.setattr("app.process.model_series._MAX_MODELS", 2)
    telemetry = Telemetry(CollectorRegistry())
    for model in ("a", "b", "c", "d", "a"):
        telemetry.count_exchange(replace(failed_exchange(Usage()), model=model, cost_microusd=5))
    page = telemetry.render().decode()
    for model, cost in (("a", 10.0), ("b", 5.0), ("other", 10.0)):
        assert f'narthex_cost_microusd_total{{model="{model}"}} {cost}' in page
    assert 'model="c"' not in page and 'model="d"' not in page


def test_endpoints_that_have_gone_are_shown_with_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    telemetry = Telemetry(CollectorRegistry())
    telemetry.set_endpoints({("p", "ready"): 2, ("p", "unreachable"): 1}, {"p": 4})
    telemetry.set_endpoints({("p", "ready"): 3}, {})
    page = telemetry.render().decode()
    assert 'narthex_endpoints{provider="p",state="ready"} 3.0' in page
    assert 'narthex_endpoints{provider="p",state="unreachable"} 0.0' in page
    assert 'narthex_endpoint_requests_in_flight{provider="p"} 0.0' in page


def test_series_have_the_models_one_name_and_end_with_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    telemetry = Telemetry()
    for name in ("gone", "kept", "tensorzero::model_name::kept", "tensorzero::function_name::writer", "writer"):
        telemetry.count_exchange(replace(failed_exchange(Usage()), model=name))
    page = telemetry.render().decode()
    assert "tensorzero" not in page and 'model="kept",outcome="answered",route="openai_chat",status="200"} 2.0' in page
    telemetry.keep_models({"kept": None}, {"writer": None})
    page = telemetry.render().decode()
    assert 'model="gone"' not in page and 'model="kept"' in page and 'model="writer"' in page
