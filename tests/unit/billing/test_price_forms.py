"""Prices of long requests, and of an engine's time: costs, what is refused, and files that say the same after a round trip."""

from typing import Any

import msgspec
import pytest

from app.billing.cost import cost_microusd, reserved_microusd
from app.billing.price_list import bundled_prices
from app.domain.errors import BadConfiguration
from app.domain.prices import GpuPrice, Price, PriceStep
from app.domain.routing import ProviderConfig
from app.domain.snapshot import Snapshot
from app.store.configuration.config_file import parse_config_file, write_file
from app.store.configuration.snapshots import build_snapshot
from app.store.configuration.validation.prices import validate
from providers.canonical.chat import Usage

STEPPED = Price(
    provider="p",
    model="m",
    input=1.0,
    output=4.0,
    cached_input=0.1,
    tiers={"batch": 0.5},
    steps=(PriceStep(above=100, input=2.0, output=6.0, cached_input=0.2), PriceStep(above=1000, input=10.0, output=20.0)),
)


@pytest.mark.parametrize(
    ("usage", "microusd"),
    [
        (Usage(100, 10), 100 * 1 + 10 * 4),
        (Usage(101, 10), 101 * 2 + 10 * 6),
        (Usage(101, 10, cached=90), 11 * 2 + 90 * 0.2 + 10 * 6),
        (Usage(1000, 0), 2000),
        (Usage(1001, 1), 1001 * 10 + 20),
        (Usage(1001, 0, cached=1000), 10010),  # a step's cached tokens cost as much as its input, unless it says otherwise
        (Usage(200, 10, tier="batch"), (200 * 2 + 10 * 6) / 2),
        (Usage(200, 10, requests=2), 200 * 1 + 10 * 4),  # two requests of a hundred each
        (Usage(None, 10), None),
        (Usage(10, 10, billed_input=5000, billed_output=1), 5000 * 1 + 4),  # the step is by what was processed
    ],
)
def test_whole_request_is_priced_by_the_step_that_its_input_exceeds(usage: Usage, microusd: float | None):
    assert cost_microusd(usage, STEPPED) == microusd


def test_time_of_an_engine_is_priced_by_its_share_of_the_gpus():
    price = Price("gpu", "m", gpu=GpuPrice(usd_per_hour=3.6, gpus=2, concurrency=4))
    assert cost_microusd(Usage(), price, 1_000_000) == 500, "a second of half a GPU at a tenth of a cent"
    assert cost_microusd(Usage(10, 10, tier="batch"), price, 0) == 0
    assert cost_microusd(Usage(10, 10), price) is None, "how long it took is not known"


def test_limits_reserve_the_time_that_the_output_takes():
    price = Price("gpu", "m", gpu=GpuPrice(usd_per_hour=3.6, tokens_per_s=10))
    assert reserved_microusd(0, 100, price) == 10_000
    assert reserved_microusd(1000, 100, price) == 11_000
    assert reserved_microusd(10, 10, STEPPED) == 50


def test_file_of_every_form_is_the_same_after_a_round_trip():
    prices = (STEPPED, Price("p", "timed", gpu=GpuPrice(2.5, 2.0, 8.0), since="2026-01-01"), Price("p", "free", input=0.0, output=0.0))
    written = write_file(Snapshot(0, "", {}, {}, prices=prices), {})
    assert parse_config_file(written).prices == prices, written
    assert msgspec.convert(msgspec.to_builtins(STEPPED), Price) == STEPPED
    listed = tuple(each for rows in bundled_prices().values() for each in rows if each.steps)
    assert len(listed) >= 20 and parse_config_file(write_file(Snapshot(0, "", {}, {}, prices=listed), {})).prices == listed


GPU: Any = {"usd_per_hour": 1.0}


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({}, "lacks input and output"),
        ({"input": 1.0}, "lacks output"),
        ({"input": 1.0, "output": 1.0, "gpu": GPU}, "beside `gpu`"),
        ({"gpu": GPU, "tiers": {"batch": 0.5}}, "beside `gpu`"),
        ({"gpu": {**GPU, "concurrency": 0.0}}, "gpu.concurrency must be from"),
        ({"gpu": {"usd_per_hour": -1.0}}, "gpu.usd_per_hour must be from 0"),
        ({"gpu": {**GPU, "tokens_per_s": 1e9}}, "gpu.tokens_per_s"),
        ({"input": 1.0, "output": 1.0, "steps": [{"above": 0, "input": 1.0, "output": 1.0}]}, "steps[0].above must be more than 0"),
        ({"input": 1.0, "output": 1.0, "steps": [{"above": 9, "input": 1.0, "output": 1.0}] * 2}, "steps[1].above must be more than 9"),
        ({"input": 1.0, "output": 1.0, "steps": [{"above": 9, "input": -1.0, "output": 1.0}]}, "steps[0].input must be from 0"),
        ({"input": 1.0, "output": 1.0, "steps": [{"above": at, "input": 1.0, "output": 1.0} for at in range(1, 10)]}, "may have 8"),
    ],
)
def test_price_that_cannot_be_meant_is_refused(fields: dict[str, Any], complaint: str):
    price = msgspec.convert({"provider": "p", "model": "m", **fields}, Price)
    with pytest.raises(BadConfiguration) as refused:
        validate(build_snapshot(1, {"p": ProviderConfig("openai")}, {}, prices=[price]))
    assert complaint in str(refused.value) and 'prices["p", "m"]' in str(refused.value)
