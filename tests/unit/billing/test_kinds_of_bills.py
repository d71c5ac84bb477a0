"""Bills of hosts, of the shapes that they report, to the millionth of a dollar: caches, fast mode, hours, uses of tools, several runs."""

import datetime
from typing import Any, cast

import msgspec
import pytest

from app.billing.cost import cost_microusd, round_together
from app.billing.price_index import PriceIndex
from app.billing.recompute import decode_charges, price_charges
from app.domain.price_hours import hours_factor
from app.domain.prices import Price, PriceHours
from app.domain.snapshot import Plan, Snapshot
from app.gateway.state.charges import costs_of_iterations
from providers.canonical.chat import Usage
from providers.dialects.anthropic_messages.usage import merge_counts, read_counts, to_usage
from providers.dialects.bedrock_converse.usage import read_usage as read_converse_usage
from providers.dialects.gemini.response_parser import ResponseParser
from providers.dialects.openai.usage import read_usage as read_chat_usage
from providers.dialects.openai_responses import OpenAIResponses

OPUS = Price(
    *("anthropic", "claude-opus-5-5"),
    input=4,
    output=20,
    cached_input=0.2,
    cache_write=5,
    cache_write_hour=8,
    tiers={"batch": 0.5, "fast": 2},
    regions={"us": 1.1},
    tool_uses={"web_search": 10},
)
HAIKU = Price("anthropic", "claude-haiku-4-5", input=1, output=5, cached_input=0.1, cache_write=1.25, cache_write_hour=2)
GPT = Price(
    *("openai", "gpt-6-sol"),
    input=2,
    output=10,
    cached_input=0.2,
    cache_write=2.5,
    cache_write_12_hours=5,
    tiers={"priority": 2, "ultrafast": 4},
    tool_uses={"web_search": 10, "file_search": 2.5, "code_interpreter": 30},
)


def messages_usage(body: dict[str, Any]) -> Usage:
    usage = to_usage(read_counts(msgspec.Raw(msgspec.json.encode(body))))
    assert usage is not None
    return usage


PLAIN = {"input_tokens": 100, "output_tokens": 50}


@pytest.mark.parametrize(
    ("body", "microusd"),
    [
        (PLAIN, 100 * 4 + 50 * 20),
        ({**PLAIN, "speed": "standard", "inference_geo": "global"}, 1400),
        ({**PLAIN, "speed": "fast"}, 2800),
        ({**PLAIN, "inference_geo": "us"}, 1540),
        ({**PLAIN, "speed": "fast", "inference_geo": "us"}, 3080),
        ({**PLAIN, "inference_geo": "eu"}, 1400),  # the price has no factor for it
        ({**PLAIN, "speed": 7, "inference_geo": [], "server_tool_use": "odd", "iterations": {}}, 1400),  # shapes that nobody documents
        (
            {
                **PLAIN,
                "cache_read_input_tokens": 1000,
                "cache_creation_input_tokens": 300,
                "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
            },
            1400 + 200 + 500 + 1600,
        ),
        ({**PLAIN, "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200}}, 1400 + 500 + 1600),
        ({**PLAIN, "speed": "fast", "server_tool_use": {"web_search_requests": 3, "web_fetch_requests": 9}}, 2800 + 30_000),
    ],
)
def test_messages_cost_what_anthropic_bills(body: dict[str, Any], microusd: int):
    assert cost_microusd(messages_usage(body), OPUS) == microusd


class _StubPlan(msgspec.Struct):
    snapshot: Snapshot


def bill(usage: Usage, *prices: Price, model: str = "claude-opus-5-5") -> list[tuple[int | None, str | None]]:
    parts = costs_of_iterations(cast(Plan, _StubPlan(Snapshot(1, "", {}, {}, prices=prices))), "anthropic", model, usage, 0.0, None, 0)
    assert sum(part.usage.input or 0 for part in parts) == usage.input
    assert sum(part.usage.output or 0 for part in parts) == usage.output
    return [(part.cost.microusd, part.cost.price) for part in parts]


COMPACTION = {
    "input_tokens": 23_000,
    "output_tokens": 1000,
    "iterations": [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500, "cache_read_input_tokens": 0},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 1000},
    ],
}
ADVISED = {
    "input_tokens": 412,
    "output_tokens": 531,
    "iterations": [
        {"type": "message", "input_tokens": 412, "output_tokens": 89},
        {"type": "advisor_message", "model": "claude-opus-5-5", "input_tokens": 823, "output_tokens": 1612, "cache_read_input_tokens": 7},
        {
            "type": "message",
            "input_tokens": 1348,
            "output_tokens": 442,
            "cache_read_input_tokens": 412,
            "cache_creation_input_tokens": 10,
            "cache_creation": {"ephemeral_1h_input_tokens": 10, "ephemeral_5m_input_tokens": 0},
        },
    ],
}


def test_compaction_is_billed_beside_the_turn_that_the_totals_are_of():
    usage = messages_usage(COMPACTION)
    assert (usage.input, usage.output) == (203_000, 4500)
    assert bill(usage, OPUS) == [(203_000 * 4 + 4500 * 20, "anthropic/claude-opus-5-5/always")]


def test_advisor_is_billed_at_the_price_of_its_own_model():
    own = (412 + 1348) * 1 + 412 * 0.1 + 10 * 2 + (89 + 442) * 5
    advisor = 823 * 4 + 7 * 0.2 + 1612 * 20
    parts = bill(messages_usage(ADVISED), OPUS, HAIKU, model="claude-haiku-4-5")
    assert [name for _, name in parts] == ["anthropic/claude-haiku-4-5/always", "anthropic/claude-opus-5-5/always"]
    assert sum(cost or 0 for cost, _ in parts) == int(own + advisor + 0.5), "rounded once"


def test_advisor_without_a_price_makes_the_cost_unknown():
    assert bill(messages_usage(ADVISED), HAIKU, model="claude-haiku-4-5")[1] == (None, None)


def test_runs_that_declined_before_they_wrote_are_not_billed_where_a_fallback_model_answered():
    usage = messages_usage(
        {
            **PLAIN,
            "iterations": [
                {"type": "message", "model": "claude-fable-5-2", "input_tokens": 100, "output_tokens": 0},
                {"type": "fallback_message", "model": "claude-opus-5-5", "input_tokens": 100, "output_tokens": 50},
            ],
        }
    )
    assert bill(usage, OPUS, model="claude-fable-5-2") == [(1400, "anthropic/claude-opus-5-5/always")]


def test_advisor_without_a_price_is_priced_no_better_when_it_is_priced_again():
    usage = messages_usage(ADVISED)
    parts = costs_of_iterations(
        cast(Plan, _StubPlan(Snapshot(1, "", {}, {}, prices=(HAIKU,)))), "anthropic", "claude-haiku-4-5", usage, 0.0, None, 0
    )
    assert [part.cost.price for part in parts] == ["anthropic/claude-haiku-4-5/always", None]
    recorded = [
        {
            "provider": "anthropic",
            "model": "claude-haiku-4-5",
            "usage": {"input": part.usage.input, "output": part.usage.output, "cached": part.usage.cached},
            "basis": "reported",
            "reported_model": part.reported_model,
            "continues": at > 0,
        }
        for at, part in enumerate(parts)
    ]
    charges = decode_charges(msgspec.json.encode(recorded).decode())
    assert price_charges(charges, PriceIndex([HAIKU]), 0.0) is None
    repriced = price_charges(charges, PriceIndex([HAIKU, OPUS]), 0.0)
    assert repriced is not None and [each.price for each in repriced] == [
        "anthropic/claude-haiku-4-5/always",
        "anthropic/claude-opus-5-5/always",
    ]


def test_single_run_is_no_iteration():
    usage = messages_usage({**PLAIN, "iterations": [{"type": "message", **PLAIN}]})
    assert usage == messages_usage(PLAIN)


def test_each_run_is_priced_by_the_step_of_its_own_input():
    stepped = msgspec.convert(
        {"provider": "anthropic", "model": "claude-haiku-5-5", "input": 0.1, "output": 0.5}
        | {"steps": [{"above": 100_000, "input": 0.5, "output": 2.5}]},
        Price,
    )
    parts = bill(messages_usage(COMPACTION), stepped, model="claude-haiku-5-5")
    assert sum(cost or 0 for cost, _ in parts) == 180_000 * 0.5 + 3500 * 2.5 + 23_000 * 0.1 + 1000 * 0.5


def test_stream_reports_its_runs_at_the_end():
    start = read_counts(msgspec.Raw(b'{"input_tokens":23000,"output_tokens":1,"speed":"fast","inference_geo":"us"}'))
    end = read_counts(msgspec.Raw(msgspec.json.encode(COMPACTION)))
    usage = to_usage(merge_counts(start, end))
    assert usage is not None and (usage.input, usage.tier, usage.region, len(usage.iterations)) == (203_000, "fast", "us", 2)


def responses_usage(output: list[dict[str, Any]], usage: dict[str, Any], **fields: Any) -> Usage:
    body = {"id": "r", "object": "response", "status": "completed", "model": "m", "created_at": 1, "output": output, "usage": usage}
    answer = OpenAIResponses().read_response(msgspec.json.encode({**body, **fields}))
    assert answer.usage is not None
    return answer.usage


MESSAGE = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "hi"}]}
SEARCH = {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}}
OPENED = {"type": "web_search_call", "id": "o", "status": "completed", "action": {"type": "open_page", "url": "https://example.com"}}
FILES = {"type": "file_search_call", "id": "f", "status": "completed", "queries": ["q"]}
CODE = {"type": "code_interpreter_call", "id": "c", "status": "completed", "container_id": "cntr_1", "code": "1"}
COUNTS = {"input_tokens": 1000, "output_tokens": 10}


@pytest.mark.parametrize(
    ("output", "usage", "fields", "microusd"),
    [
        ([MESSAGE], COUNTS, {}, 2100),
        ([MESSAGE], COUNTS, {"service_tier": "fast"}, 4200),
        ([MESSAGE], COUNTS, {"service_tier": "ultrafast"}, 8400),
        ([SEARCH, OPENED, SEARCH, MESSAGE], COUNTS, {}, 2100 + 20_000),
        ([FILES, CODE, CODE, MESSAGE], COUNTS, {}, 2100 + 2500 + 30_000),
        (
            [MESSAGE],
            {
                **COUNTS,
                "input_tokens_details": {
                    "cached_tokens": 100,
                    "cache_write_tokens": 500,
                    "cache_write_tokens_details": {"ttl_12h_tokens": 200, "ttl_30m_tokens": 300},
                },
            },
            {},
            400 * 2 + 100 * 0.2 + 300 * 2.5 + 200 * 5 + 100,
        ),
        # xAI counts its tools itself.
        ([SEARCH, MESSAGE], {**COUNTS, "server_side_tool_usage_details": {"web_search_calls": 4}}, {}, 2100 + 40_000),
    ],
)
def test_responses_cost_what_openai_bills(output: list[Any], usage: dict[str, Any], fields: dict[str, Any], microusd: int):
    assert cost_microusd(responses_usage(output, usage, **fields), GPT) == microusd


def test_perplexity_has_a_fee_for_each_request_by_how_much_it_may_read():
    sonar = Price("perplexity", "sonar", input=1, output=1, tool_uses={"search_low": 5, "search_medium": 8, "search_high": 12})
    usage = read_chat_usage(b'{"prompt_tokens":14,"completion_tokens":86,"search_context_size":"medium"}')
    assert usage is not None and cost_microusd(usage, sonar) == 100 + 8000
    odd = read_chat_usage(b'{"prompt_tokens":14,"completion_tokens":86,"search_context_size":7}')
    assert odd is not None and cost_microusd(odd, sonar) == 100


def test_google_bills_queries_or_grounded_requests_as_the_price_says():
    frame = {
        "candidates": [
            {
                "index": 0,
                "content": {"parts": [{"text": "Sunny."}]},
                "groundingMetadata": {"webSearchQueries": ["a", "b", ""]},
                "finishReason": "STOP",
            }
        ],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5},
    }
    parser = ResponseParser()
    reported = [event for raw in [frame, frame] for event in parser.read(msgspec.json.encode(raw)) if hasattr(event, "usage")]
    usage = cast(Any, reported[-1]).usage
    by_query = Price("gemini", "new", input=1, output=1, tool_uses={"web_search": 14})
    by_request = Price("gemini", "old", input=1, output=1, tool_uses={"web_search_request": 35})
    assert [cost_microusd(usage, each) for each in (by_query, by_request)] == [15 + 28_000, 15 + 35_000]


def test_converse_reports_writes_by_how_long_they_are_kept():
    details = [{"ttl": "1h", "inputTokens": 20}, {"ttl": "5m", "inputTokens": 30}]
    body = {"inputTokens": 100, "outputTokens": 50, "cacheReadInputTokens": 10, "cacheWriteInputTokens": 50, "cacheDetails": details}
    usage = read_converse_usage(msgspec.Raw(msgspec.json.encode(body)), msgspec.Raw(b"null"))
    assert usage is not None and cost_microusd(usage, OPUS) == 100 * 4 + 10 * 0.2 + 30 * 5 + 20 * 8 + 50 * 20


PEAK: tuple[PriceHours, ...] = (
    PriceHours(factor=0.5, days=("sat", "sun")),
    PriceHours(factor=1, start="01:00", end="04:00"),
    PriceHours(factor=1, start="06:00", end="10:00"),
    PriceHours(factor=0.5),
)


@pytest.mark.parametrize(
    ("moment", "factor"),
    [
        ("2026-11-30T00:59:59", 0.5),  # a Monday
        ("2026-11-30T01:00:00", 1),
        ("2026-11-30T03:59:59", 1),
        ("2026-11-30T04:00:00", 0.5),
        ("2026-12-04T09:30:00", 1),  # a Friday
        ("2026-12-04T10:00:00", 0.5),
        ("2026-12-05T02:00:00", 0.5),  # a Saturday
        ("2026-12-06T07:00:00", 0.5),
    ],
)
def test_hours_are_of_the_day_and_the_week_in_utc(moment: str, factor: float):
    at_s = datetime.datetime.fromisoformat(moment + "+00:00").timestamp()
    assert hours_factor(PEAK, at_s) == factor
    price = Price("deepseek", "deepseek-flash", input=0.3, output=1.2, cached_input=0.006, hours=PEAK)
    assert cost_microusd(Usage(1000, 1000, 500), price, at_s=at_s) == int((500 * 0.3 + 500 * 0.006 + 1200) * factor + 0.5)


def test_price_with_hours_is_unknown_without_a_time():
    price = Price("p", "m", input=1, output=1, hours=PEAK)
    assert cost_microusd(Usage(1, 1), price) is None


def test_parts_of_one_cost_are_rounded_together():
    half = 500_000_000
    assert round_together([half, half, half]) == [1, 0, 1]
    assert sum(round_together([half - 1] * 7)) == 3


def test_writes_for_12_hours_without_a_price_make_the_cost_unknown():
    usage = Usage(10, 10, cache_written=5, cache_written_12_hours=5)
    assert cost_microusd(usage, Price("p", "m", input=1, output=1, cache_write=1.25)) is None
    assert cost_microusd(usage, Price("p", "m", input=1, output=1)) == 20
