"""The cost of a request as hosts report it, in each of their forms."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from providers.canonical.chat import Usage
from providers.canonical.host_costs import read_host_cost
from providers.canonical.raw_json import NULL
from providers.dialects.openai.usage import read_usage
from providers.dialects.openai_responses.usage import read_usage as read_responses_usage

TOKENS = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}


@pytest.mark.parametrize(
    ("cost_fields", "microusd"),
    [
        ({"cost": 0.000837, "cost_details": {"upstream_inference_cost": 0.000837}, "is_byok": False}, 837),
        ({"cost": 0.00005, "cost_details": {"upstream_inference_cost": 0.001}, "is_byok": True}, 1050),
        ({"cost": 0.00005, "cost_details": {"upstream_inference_cost": None}, "is_byok": True}, 50),
        ({"cost": {"input_tokens_cost": 0.00001, "output_tokens_cost": 0.0002, "total_cost": 0.00521}}, 5210),
        ({"cost_in_usd_ticks": 731_000}, 73),
        ({"cost_in_usd_ticks": 5_000}, 1),
        ({"cost": 0}, 0),
        ({"cost": None}, None),
        ({}, None),
        ({"cost": -1}, None),
        ({"cost": 1e300}, None),
        ({"cost": "a lot"}, None),
        ({"cost": {"other": 1}}, None),
        ({"cost_in_usd_ticks": -5}, None),
        ({"cost_in_usd_ticks": "x"}, None),
    ],
)
def test_reported_cost_is_read_and_never_costs_the_tokens(cost_fields: dict[str, Any], microusd: int | None):
    assert read_usage(msgspec.json.encode({**TOKENS, **cost_fields})) == Usage(10, 2, host_cost_microusd=microusd)


def test_responses_report_their_cost_too():
    raw = msgspec.json.encode({"input_tokens": 10, "output_tokens": 2, "cost_in_usd_ticks": 161_508_500})
    assert read_responses_usage(raw) == Usage(10, 2, host_cost_microusd=16_151)


def test_half_a_millionth_is_rounded_up():
    assert read_host_cost(Raw(b"0.0000005")) == 1 and read_host_cost(Raw(b"0.0000004")) == 0 and read_host_cost(NULL) is None
