"""The bundled price list: every row can be applied and has a dated source; which prices are suggested for a configuration."""

import datetime
import re
import tomllib
from collections.abc import Sequence

import pytest

from app.billing.cost import cost_microusd
from app.billing.price_index import find_price
from app.billing.price_list import bundled_prices, candidate_names, suggest_prices_for_targets
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.store.configuration.config_file import parse_config_file, write_file
from app.store.configuration.snapshots import build_snapshot
from app.store.configuration.validation.paths import price_key
from app.store.configuration.validation.prices import validate
from providers.canonical.chat import Usage
from providers.catalogue import ADAPTERS

ROWS = [price for prices in bundled_prices().values() for price in prices]
NOW_S = 1_795_219_200.0  # 2026-11-21


def snapshot_with(adapter: str, model: str, prices: Sequence[Price] = (), base_url: str | None = None) -> Snapshot:
    return build_snapshot(1, {"mine": ProviderConfig(adapter, base_url)}, {"m": ModelConfig((Target("mine", model),))}, prices=prices)


def suggested_name(adapter: str, model: str) -> str | None:
    """The name in the price list of what is suggested for a model."""
    (suggestion,) = suggest_prices_for_targets(snapshot_with(adapter, model), NOW_S)
    assert bool(suggestion.prices) == (not suggestion.reason)
    return suggestion.listed_as or None


def test_whole_price_list_validates_if_providers_are_named_like_their_adapters():
    providers = {name: ProviderConfig(name) for name in ADAPTERS}
    validate(build_snapshot(1, providers, {}, prices=ROWS))
    assert len({price_key(each) for each in ROWS}) == len(ROWS)
    assert all(ADAPTERS[each.provider].default_base_url for each in ROWS), "a host's price, not an engine's"


def test_every_price_row_has_a_dated_source_and_plausible_ratios():
    implausible = {
        (row.provider, row.model, row.since): failed
        for row in ROWS
        if (failed := [claim for claim, holds in plausibility(row).items() if not holds])
    }
    assert implausible == {}


def plausibility(row: Price) -> dict[str, bool]:
    assert row.input is not None and row.output is not None
    return {
        "source with date": bool(re.search(r"https://\S+\.\S+.*, read \d{4}-\d\d-\d\d(\.|$)", row.source or "")),
        "input": row.input > 0,
        "output": row.output >= row.input or row.output == 0,
        "cached_input": row.cached_input is None or 0 < row.cached_input < row.input,
        "cache_write": row.cache_write is None or row.cache_write > row.input or row.provider == "moonshot",
        "cache_write_hour": row.cache_write_hour is None or (row.cache_write is not None and row.cache_write_hour > row.cache_write),
        "audio_input": row.audio_input is None or row.audio_input > row.input,
        "steps": all(
            step.input > row.input
            and step.output > row.output
            and (step.cached_input is None) == (row.cached_input is None)
            and (step.cache_write is None) == (row.cache_write is None)
            for step in row.steps
        ),
        "tiers": all((factor < 1) == (tier in ("batch", "flex")) for tier, factor in row.tiers.items()),
        "cache_write_12_hours": row.cache_write_12_hours is None or row.cache_write_12_hours == 2 * (row.cache_write or 0),
        "tool_uses": all(0 < usd <= 50 for usd in row.tool_uses.values()),
    }


def test_every_price_that_ends_has_the_one_that_follows():
    """A row that says until when it holds has the one that begins the day after beside it, whatever the day of the test."""
    open_ended: list[str] = []
    for prices in bundled_prices().values():
        for row, following in zip(prices, [*prices[1:], None], strict=True):
            until = re.search(r"[Uu]ntil (\d{4}-\d\d-\d\d|the end of (\d{4}))", row.source or "")
            if until is None:
                continue
            last_day = f"{until[2]}-12-31" if until[2] else until[1]
            next_day = (datetime.date.fromisoformat(last_day) + datetime.timedelta(days=1)).isoformat()
            if (following is None or following.since != next_day) and "still has it" not in (row.source or ""):
                open_ended.append(f"{row.provider}/{row.model} until {last_day}")
    assert open_ended == []


@pytest.mark.parametrize(
    ("address", "model", "listed_as"),
    [
        ("https://api.moonshot.ai/v1", "kimi-k3", "kimi-k3"),
        ("https://api.z.ai/api/paas/v4", "glm-5.3", "glm-5.3"),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "qwen3.8-max", "qwen3.8-max"),
        ("https://api.moonshot.ai/v1", "gpt-5", ""),
    ],
)
def test_host_is_found_by_its_address_behind_the_adapter_of_openai(address: str, model: str, listed_as: str):
    (suggestion,) = suggest_prices_for_targets(snapshot_with("openai", model, base_url=address), NOW_S)
    assert suggestion.listed_as == listed_as and bool(suggestion.prices) == bool(listed_as)


@pytest.mark.parametrize(
    ("adapter", "model", "day", "input"),
    [
        ("gemini", "gemini-4-argon", "2026-11-30", 2),
        ("gemini", "gemini-4-argon", "2026-12-01", 4),
        ("gemini", "gemini-4-carbon", "2026-12-01", 4),
        ("vertex", "gemini-4-carbon", "2026-12-01", 4),
        ("gemini", "gemini-3.6-flash", "2026-12-31", 0.75),
        ("gemini", "gemini-3.6-flash", "2027-01-01", 1.5),
        ("anthropic", "claude-fable-5-2", "2026-12-01", 8),
        ("openai", "gpt-6.2-sol", "2026-12-01", 2),
        ("bedrock", "us.anthropic.claude-sonnet-5", "2026-12-01", 2.2),
        ("vertex", "claude-opus-5-5@default", "2026-12-01", 4),
    ],
)
def test_models_of_this_month_are_listed_with_the_price_of_the_day(adapter: str, model: str, day: str, input: float):
    (suggestion,) = suggest_prices_for_targets(snapshot_with(adapter, model), NOW_S)
    at_s = datetime.datetime.fromisoformat(day + "T00:00+00:00").timestamp()
    found = find_price(snapshot_with(adapter, model, suggestion.prices), "mine", model, at_s)
    assert found is not None and found.input == input


def test_dated_prices_of_a_model_follow_an_undated_one_in_order():
    for prices in bundled_prices().values():
        days = [each.since or "" for each in prices]
        assert days == sorted(set(days)) and (len(prices) == 1 or days[0] == "")


@pytest.mark.parametrize(
    ("adapter", "model", "listed_name"),
    [
        ("openai", "gpt-5", "gpt-5"),
        ("openai", "gpt-5-2025-08-07", "gpt-5"),
        ("openai", "gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("openai", "gpt-5-codex", None),
        ("openai", "models/gpt-5", None),
        ("anthropic", "claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("anthropic", "claude-haiku-4-5-latest", None),
        ("gemini", "models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("vertex", "publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("vertex", "google/gemini-2.5-pro", "gemini-2.5-pro"),
        ("vertex", "claude-sonnet-4-6@default", None),
        ("bedrock", "us.anthropic.claude-sonnet-4-6", "anthropic.claude-sonnet-4-6"),
        ("bedrock", "global.anthropic.claude-sonnet-4-6", "global.anthropic.claude-sonnet-4-6"),
        ("bedrock", "eu.anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic.claude-haiku-4-5-20251001-v1:0"),
        ("groq", "openai/gpt-oss-20b", "openai/gpt-oss-20b"),
        ("vllm", "gpt-5", None),
        ("azure", "gpt-5", None),
    ],
)
def test_model_is_matched_by_adapter_and_name_without_date_or_region(adapter: str, model: str, listed_name: str | None):
    assert suggested_name(adapter, model) == listed_name


def test_claude_on_foundry_costs_what_anthropic_asks():
    azure = {"api": "anthropic", "resource": "r", "deployments": {"our-chat": "claude-opus-5"}}
    for config, model in (
        (ProviderConfig("azure", options=azure), "claude-opus-5"),
        (ProviderConfig("azure", options=azure), "our-chat"),
        (ProviderConfig("anthropic", "https://r.services.ai.azure.com/anthropic"), "claude-opus-5"),
    ):
        snapshot = build_snapshot(1, {"mine": config}, {"m": ModelConfig((Target("mine", model),))})
        (suggestion,) = suggest_prices_for_targets(snapshot, NOW_S)
        assert suggestion.listed_as == "claude-opus-5" and suggestion.prices[0].model == model, suggestion.reason


def test_exact_name_is_tried_before_shorter_ones():
    assert list(candidate_names("bedrock", "us.x-20251001")) == ["us.x-20251001", "us.x", "x-20251001", "x"]
    assert list(candidate_names("openai", "us.x")) == ["us.x", "us.x", "us.x", "us.x"]


def test_no_price_is_suggested_for_a_model_at_another_address():
    (elsewhere,) = suggest_prices_for_targets(snapshot_with("openai", "gpt-5", base_url="http://10.0.0.5:8000/v1"), NOW_S)
    assert not elsewhere.prices and "10.0.0.5" in elsewhere.reason
    (host,) = suggest_prices_for_targets(snapshot_with("openai", "gpt-5", base_url="https://api.openai.com/v1"), NOW_S)
    assert host.prices
    target = Target("mine", "gpt-5", endpoints=("http://10.0.0.6",))
    (shared,) = suggest_prices_for_targets(
        build_snapshot(1, {"mine": ProviderConfig("openai")}, {"m": ModelConfig((target, Target("mine", "gpt-5")))}), NOW_S
    )
    assert not shared.prices and "10.0.0.6" in shared.reason, "one price would apply to both"


def test_suggested_prices_written_to_a_file_apply_from_their_dates():
    bare = snapshot_with("gemini", "models/gemini-3.8-flash")
    (suggestion,) = suggest_prices_for_targets(bare, NOW_S)
    assert not suggestion.has_price
    file = write_file(Snapshot(0, "", {}, {}, prices=suggestion.prices), {})
    assert tomllib.loads(file).keys() == {"prices"}
    priced = snapshot_with("gemini", "models/gemini-3.8-flash", prices=parse_config_file(file).prices or ())
    validate(priced)
    costs = [find_price(priced, "mine", "models/gemini-3.8-flash", at_s) for at_s in (NOW_S, NOW_S + 45 * 86_400)]
    assert [price and cost_microusd(Usage(1000, 100, 0), price) for price in costs] == [1125, 2250]
    (after_pricing,) = suggest_prices_for_targets(priced, NOW_S)
    assert after_pricing.has_price


def test_every_target_model_is_suggested_once_and_filtered_by_provider():
    providers = {"a": ProviderConfig("openai"), "b": ProviderConfig("sandbox")}
    models = {"x": ModelConfig((Target("a", "gpt-5"), Target("b", "s"))), "y": ModelConfig((Target("a", "gpt-5"), Target("a", "no")))}
    suggestions = [
        (each.provider, each.model, bool(each.prices)) for each in suggest_prices_for_targets(build_snapshot(1, providers, models), NOW_S)
    ]
    assert suggestions == [("a", "gpt-5", True), ("b", "s", False), ("a", "no", False)]
    assert [each.model for each in suggest_prices_for_targets(build_snapshot(1, providers, models), NOW_S, "b")] == ["s"]
