"""Exports of four providers, in each of their forms, read to the same kinds of tokens."""
# ruff: noqa: E501

import datetime
from decimal import Decimal

import pytest

from app.billing.invoice_cells import InvoiceError
from app.billing.invoices import InvoiceFormat, InvoiceLine, read_invoice
from app.billing.reconcile import canonical_name, parse_model_map

DAY = datetime.date(2026, 11, 3)

OPENAI_COSTS = """start_time,end_time,start_time_iso,amount_value,amount_currency,line_item,project_id
1793664000,1793750400,2026-11-03T00:00:00+00:00,0.0125,usd,"gpt-5-2025-08-07, input",proj_1
1793664000,1793750400,2026-11-03T00:00:00+00:00,0.00125,usd,"gpt-5-2025-08-07, cached input",proj_1
1793664000,1793750400,2026-11-03T00:00:00+00:00,0.02,usd,"gpt-5-2025-08-07, output",proj_1
1793664000,1793750400,2026-11-03T00:00:00+00:00,0.03,usd,web search tool calls,proj_1
"""
OPENAI_USAGE = """start_time,end_time,model,num_model_requests,input_tokens,output_tokens,input_cached_tokens,input_audio_tokens
1793664000,1793750400,gpt-5-2025-08-07,3,1000,200,400,100
"""
ANTHROPIC_COSTS = """usage_date_utc,model,workspace,token_type,cost_type,cost_usd
2026-11-03,claude-haiku-4-5-20251001,default,input_no_cache,token,0.10
2026-11-03,claude-haiku-4-5-20251001,default,input_cache_read,token,0.01
2026-11-03,claude-haiku-4-5-20251001,default,input_cache_write_1h,token,0.02
2026-11-03,,default,,web_search,0.05
"""
ANTHROPIC_CENTS = """starting_at,model,token_type,cost_type,amount,currency
2026-11-03T00:00:00Z,claude-haiku-4-5-20251001,uncached_input_tokens,tokens,12.5,USD
2026-11-03T00:00:00Z,claude-haiku-4-5-20251001,output_tokens,tokens,250,USD
"""
ANTHROPIC_USAGE = """usage_date_utc,model_version,usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,usage_input_tokens_cache_read,usage_output_tokens
2026-11-03,claude-haiku-4-5-20251001,600,50,400,10
"""
BEDROCK = """line_item_usage_start_date,line_item_product_code,line_item_usage_type,line_item_usage_amount,line_item_unblended_cost,pricing_unit,line_item_resource_id
2026-11-03 10:00:00,AmazonBedrock,USE1-Nova2.0Lite-input-tokens,1.5,0.000495,1K tokens,
2026-11-03 10:00:00,AmazonBedrock,USE1-Claude4.5Haiku-cache-read-input-token-count,400,0.00004,Tokens,arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-haiku-4-5-20251001-v1:0
2026-11-03 10:00:00,AmazonBedrock,USE1-Claude4.5Haiku-output-tokens-cross-region-global,20,0.0001,Tokens,arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-haiku-4-5-20251001-v1:0
2026-11-03 10:00:00,AmazonBedrock,USE1-Guardrail-Units,5,0.75,Units,
2026-11-03 10:00:00,AmazonEC2,BoxUsage:m5.large,1,0.1,Hrs,
"""
OPENROUTER = """generation_id,created_at,cost_total,tokens_prompt,tokens_completion,tokens_cached,model_permaslug,byok_usage_inference
gen-1,2026-11-03 23:59:59.123,0.00123,100,20,60,anthropic/claude-4.5-haiku-20251001,0
gen-2,2026-11-03T01:00:00+02:00,0.001,5,1,0,openai/gpt-5,0.002
"""


def line(model: str, kind: str, tokens: int | None = None, usd: str | None = None, day: datetime.date = DAY) -> InvoiceLine:
    return InvoiceLine(day, model, kind, tokens, None if usd is None else Decimal(usd))


GPT, HAIKU, SLUG = "gpt-5-2025-08-07", "claude-haiku-4-5-20251001", "anthropic/claude-4.5-haiku-20251001"


@pytest.mark.parametrize(
    ("format", "export", "lines"),
    [
        (
            "openai",
            OPENAI_COSTS,
            [
                line(GPT, "input", usd="0.0125"),
                line(GPT, "cached_input", usd="0.00125"),
                line(GPT, "output", usd="0.02"),
                line("web search tool calls", "other", usd="0.03"),
            ],
        ),
        ("openai", OPENAI_USAGE, [line(GPT, "input", 500), line(GPT, "cached_input", 400), line(GPT, "audio_input", 100), line(GPT, "output", 200)]),
        (
            "anthropic",
            ANTHROPIC_COSTS,
            [
                line(HAIKU, "input", usd="0.10"),
                line(HAIKU, "cached_input", usd="0.01"),
                line(HAIKU, "cache_write_hour", usd="0.02"),
                line("web_search", "other", usd="0.05"),
            ],
        ),
        ("anthropic", ANTHROPIC_CENTS, [line(HAIKU, "input", usd="0.125"), line(HAIKU, "output", usd="2.5")]),
        ("anthropic", ANTHROPIC_USAGE, [line(HAIKU, "input", 600), line(HAIKU, "cached_input", 400), line(HAIKU, "cache_write", 50), line(HAIKU, "output", 10)]),
        (
            "bedrock",
            BEDROCK,
            [
                line("Nova2.0Lite", "input", 1500, "0.000495"),
                line("anthropic.claude-haiku-4-5-20251001-v1:0", "cached_input", 400, "0.00004"),
                line("us.anthropic.claude-haiku-4-5-20251001-v1:0", "output", 20, "0.0001"),
                line("USE1-Guardrail-Units", "other", usd="0.75"),
            ],
        ),
        (
            "openrouter",
            OPENROUTER,
            [
                line(SLUG, "input", 40),
                line(SLUG, "cached_input", 60),
                line(SLUG, "output", 20),
                line(SLUG, "all", usd="0.00123"),
                line("openai/gpt-5", "input", 5, day=datetime.date(2026, 11, 2)),
                line("openai/gpt-5", "output", 1, day=datetime.date(2026, 11, 2)),
                line("openai/gpt-5", "all", usd="0.003", day=datetime.date(2026, 11, 2)),
            ],
        ),
    ],
)  # fmt: skip
def test_every_form_is_read_to_the_same_kinds(format: InvoiceFormat, export: str, lines: list[InvoiceLine]):
    assert list(read_invoice(export.encode(), format)) == lines
    assert list(read_invoice(b"\xef\xbb\xbf" + export.replace("\n", "\r\n").encode(), format)) == lines


@pytest.mark.parametrize(
    ("format", "export", "complaint"),
    [
        ("openai", "", "An export of OpenAI has the columns"),
        ("anthropic", "a,b\n1,2\n", "An export of Anthropic has"),
        ("bedrock", "line_item_usage_type\nx\n", "line_item_unblended_cost"),
        ("openrouter", "model,tokens\nx,1\n", "An activity of OpenRouter has"),
        ("openai", OPENAI_COSTS.replace("0.02,usd", "a lot,usd"), "Line 4: amount_value is not a number: 'a lot'"),
        ("openai", OPENAI_COSTS.replace("0.02,usd", "0.02,eur"), "Line 4: Amounts are in eur"),
        ("openai", OPENAI_USAGE.replace("1000,200", "-1,200"), "Line 2: input_tokens is not a number of tokens"),
        ("openai", OPENAI_USAGE.replace("1000,200", "1e400,200"), "is not a number"),
        ("anthropic", ANTHROPIC_COSTS.replace("2026-11-03,claude", "3rd,claude", 1), "Line 2: usage_date_utc is not a time: '3rd'"),
        ("openrouter", "created_at,model,cost\n99999999999999999999,m,1\n", "is not a time"),
        ("openai", "start_time,model,input_tokens\n1793664000,,5\n", "model is empty"),
    ],
)
def test_file_that_is_no_export_is_refused_with_its_line(format: InvoiceFormat, export: str, complaint: str):
    with pytest.raises(InvoiceError) as refused:
        list(read_invoice(export.encode(), format))
    assert complaint in str(refused.value)


def test_file_that_is_no_text_is_refused():
    with pytest.raises(InvoiceError):
        list(read_invoice(b"PK\x03\x04\xff\xfe", "openai"))


def test_models_are_matched_without_dates_and_locations():
    assert canonical_name("openai", "gpt-5-2025-08-07") == canonical_name("openai", "gpt-5") == "gpt-5"
    assert canonical_name("bedrock", "us.anthropic.claude-haiku-4-5") == canonical_name("bedrock", "anthropic.claude-haiku-4-5")
    assert parse_model_map("A=b, C=d=e") == {"A": "b", "C": "d=e"} and parse_model_map("") == {}
    for wrong in ("a", "=b", "a="):
        with pytest.raises(InvoiceError):
            parse_model_map(wrong)
