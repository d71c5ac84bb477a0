"""Providers' invoices: their CSV exports, read to tokens and dollars by UTC day, model and kind of token.

An export has one set of column names from the web page and another from the API. All known names are read,
and other columns are ignored. Sources, read 2026-11: platform.openai.com/docs/api-reference/usage,
platform.claude.com/docs/en/api/admin/cost_report, docs.aws.amazon.com/bedrock
cost-mgmt-understanding-cur-data, openrouter.ai/docs/use-cases/usage-accounting.
"""

import csv
import datetime
import io
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from app.billing.invoice_cells import InvoiceError, Row, check_currency, count_cell, day_cell, dollars_cell, first_cell, text_cell

InvoiceFormat = Literal["openai", "anthropic", "bedrock", "openrouter"]
# A cost of everything, where the provider does not say it by kinds; and a cost that is of no tokens.
ALL, OTHER = "all", "other"

_MAX_ROWS = 1_000_000
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_WORD = re.compile(r"[^a-z0-9]+")


class InvoiceLine(Struct, frozen=True):
    """A line of an invoice. `tokens` or `usd` is None if the line does not say."""

    day: datetime.date
    model: str
    kind: str
    tokens: int | None = None
    usd: Decimal | None = None


def read_invoice(raw: bytes, format: InvoiceFormat) -> Iterator[InvoiceLine]:
    """The lines of an export, one by one. Raises InvoiceError."""
    try:
        reader = csv.reader(io.StringIO(raw.decode("utf-8-sig")))
        names = [_normalize_name(name) for name in next(reader, list[str]())]
        read_row = _READERS[format](set(names))
        for cells in reader:
            if reader.line_num > _MAX_ROWS:
                raise InvoiceError(f"The file has more than {_MAX_ROWS:,} lines.")
            if not any(cells):
                continue
            try:
                row = dict(zip(names, cells, strict=False))
                check_currency(row)
                yield from read_row(row)
            except InvoiceError as fault:
                raise InvoiceError(f"Line {reader.line_num}: {fault}") from None
    except (UnicodeDecodeError, csv.Error) as fault:
        raise InvoiceError(f"The file is not CSV in UTF-8: {fault}.") from None


def _normalize_name(name: str) -> str:
    """lineItem/UsageType and Line Item Usage Type are both line_item_usage_type."""
    return _NOT_WORD.sub("_", _CAMEL.sub("_", name.strip()).lower()).strip("_")


# OpenAI


def _read_openai(names: set[str]) -> Callable[[Row], Iterator[InvoiceLine]]:
    """Returns the reader of an OpenAI export, which is of costs or of usage.

    Costs have a line item and its amount. Usage has tokens, and cached tokens are a part of the input.
    """
    if "line_item" in names and names & {"amount_value", "amount", "cost"}:
        return _read_openai_cost
    if "input_tokens" in names and "model" in names:
        return _read_openai_usage
    raise InvoiceError("An export of OpenAI has the columns start_time, line_item and amount_value, or start_time, model and input_tokens.")


_OPENAI_DAYS = ("start_time_iso", "start_time", "date", "bucket_start_time")
_OPENAI_KINDS = {
    frozenset({"input"}): "input",
    frozenset({"output"}): "output",
    frozenset({"cached", "input"}): "cached_input",
    frozenset({"audio", "input"}): "audio_input",
    frozenset({"audio", "output"}): "audio_output",
    frozenset({"image", "input"}): "image_input",
    frozenset({"cache", "write"}): "cache_write",
    frozenset({"cache", "write", "input"}): "cache_write",
}
_NO_KIND_WORDS = frozenset({"batch", "flex", "priority", "tokens", "token", "text"})


def _read_openai_cost(row: Row) -> Iterator[InvoiceLine]:
    model, _, label = row["line_item"].rpartition(",")
    kind = _OPENAI_KINDS.get(frozenset(_normalize_name(label).split("_")) - _NO_KIND_WORDS)
    if kind is None:
        model, kind = row["line_item"], OTHER
    yield InvoiceLine(day_cell(row, *_OPENAI_DAYS), model.strip(), kind, usd=dollars_cell(row, "amount_value", "amount", "cost"))


def _read_openai_usage(row: Row) -> Iterator[InvoiceLine]:
    day, model = day_cell(row, *_OPENAI_DAYS), text_cell(row, "model")
    cached, audio = count_cell(row, "input_cached_tokens"), count_cell(row, "input_audio_tokens")
    audio_output = count_cell(row, "output_audio_tokens")
    counts = {
        "input": max(0, count_cell(row, "input_tokens") - cached - audio),
        "cached_input": cached,
        "audio_input": audio,
        "output": max(0, count_cell(row, "output_tokens") - audio_output),
        "audio_output": audio_output,
    }
    yield from _token_lines(day, model, counts)


# Anthropic

_ANTHROPIC_DAYS = ("usage_date_utc", "date", "starting_at", "bucket_start")
_ANTHROPIC_COUNTS = {
    "input": ("usage_input_tokens_no_cache", "uncached_input_tokens"),
    "cached_input": ("usage_input_tokens_cache_read", "cache_read_input_tokens"),
    "cache_write": ("usage_input_tokens_cache_write_5m", "cache_creation_ephemeral_5m_input_tokens"),
    "cache_write_hour": ("usage_input_tokens_cache_write_1h", "cache_creation_ephemeral_1h_input_tokens"),
    "output": ("usage_output_tokens", "output_tokens"),
}
_ANTHROPIC_KINDS = {
    **dict.fromkeys(("uncached_input_tokens", "input_no_cache", "input"), "input"),
    **dict.fromkeys(("cache_read_input_tokens", "input_cache_read"), "cached_input"),
    **dict.fromkeys(("cache_creation_ephemeral_5m_input_tokens", "input_cache_write_5m"), "cache_write"),
    **dict.fromkeys(("cache_creation_ephemeral_1h_input_tokens", "input_cache_write_1h"), "cache_write_hour"),
    **dict.fromkeys(("output_tokens", "output"), "output"),
}


def _read_anthropic(names: set[str]) -> Callable[[Row], Iterator[InvoiceLine]]:
    """Returns the reader of an Anthropic export, which is of costs or of usage.

    Costs are dollars in cost_usd, or cents in the API's amount. In usage, the input excludes the cache.
    """
    if names & {"cost_usd", "amount"}:
        return _read_anthropic_cost
    if names & {"usage_input_tokens_no_cache", "uncached_input_tokens"}:
        return _read_anthropic_usage
    raise InvoiceError("An export of Anthropic has a column cost_usd or amount (in cents), or usage_input_tokens_no_cache.")


def _read_anthropic_cost(row: Row) -> Iterator[InvoiceLine]:
    usd = dollars_cell(row, "cost_usd") if row.get("cost_usd") else dollars_cell(row, "amount") / 100
    kind = _ANTHROPIC_KINDS.get(_normalize_name(row.get("token_type", "")), OTHER)
    if row.get("cost_type", "tokens").strip().lower() not in ("tokens", "token", ""):
        kind = OTHER
    model = first_cell(row, "model_version", "model") or row.get("cost_type", "") or row.get("description", "")
    yield InvoiceLine(day_cell(row, *_ANTHROPIC_DAYS), model, kind, usd=usd)


def _read_anthropic_usage(row: Row) -> Iterator[InvoiceLine]:
    counts = {kind: count_cell(row, *columns) for kind, columns in _ANTHROPIC_COUNTS.items()}
    yield from _token_lines(day_cell(row, *_ANTHROPIC_DAYS), text_cell(row, "model_version", "model"), counts)


# Bedrock

_BEDROCK_USAGE = re.compile(
    r"^(?:[A-Z]{2,4}\d-)?(?P<model>.+?)-(?P<kind>cache-read-input-token|cache-write-input-token|input-token|output-token)"
)
_BEDROCK_KINDS = {
    **{"input-token": "input", "output-token": "output"},
    **{"cache-read-input-token": "cached_input", "cache-write-input-token": "cache_write"},
}
_UNIT_SIZES = (("1k", 1000), ("1m", 1_000_000), ("thousand", 1000), ("million", 1_000_000))


def _read_bedrock(names: set[str]) -> Callable[[Row], Iterator[InvoiceLine]]:
    """A Cost and Usage Report (CUR 2.0): a line for each kind of token; lines of other products are passed over."""
    needed = {"line_item_usage_start_date", "line_item_usage_type", "line_item_usage_amount", "line_item_unblended_cost"}
    if missing := needed - names:
        raise InvoiceError(f"A Cost and Usage Report has the columns {', '.join(sorted(needed))}: {', '.join(sorted(missing))} is missing.")
    return _read_bedrock_line


def _read_bedrock_line(row: Row) -> Iterator[InvoiceLine]:
    usage_type, resource = row["line_item_usage_type"].strip(), row.get("line_item_resource_id", "").strip()
    is_bedrock = "bedrock" in f"{row.get('line_item_product_code', '')} {resource}".lower()
    found = _BEDROCK_USAGE.match(usage_type)
    if found is None and not is_bedrock:
        return
    day, usd = day_cell(row, "line_item_usage_start_date"), dollars_cell(row, "line_item_unblended_cost")
    if found is None:
        yield InvoiceLine(day, usage_type, OTHER, usd=usd)
        return
    unit = row.get("pricing_unit", "").lower()
    size = next((size for word, size in _UNIT_SIZES if word in unit), 1)
    tokens = int((dollars_cell(row, "line_item_usage_amount") * size).to_integral_value())
    # The resource names the model as requests do; a usage type has a marketing name.
    model = resource.rpartition("/")[2] if "foundation-model/" in resource or "inference-profile/" in resource else found["model"]
    yield InvoiceLine(day, model, _BEDROCK_KINDS[found["kind"]], tokens, usd)


# OpenRouter

_OPENROUTER_COSTS = ("cost_total", "usage", "cost")


def _read_openrouter(names: set[str]) -> Callable[[Row], Iterator[InvoiceLine]]:
    """Its activity: a line for each request, or each day; the cost is of all tokens together."""
    if not names & set(_OPENROUTER_COSTS) or not names & {"model", "model_permaslug"}:
        raise InvoiceError("An activity of OpenRouter has the columns created_at (or date), model_permaslug and cost_total (or usage).")
    return _read_openrouter_line


def _read_openrouter_line(row: Row) -> Iterator[InvoiceLine]:
    day, model = day_cell(row, "created_at", "date"), text_cell(row, "model_permaslug", "model")
    cached = count_cell(row, "tokens_cached", "cached_tokens")
    counts = {
        "input": max(0, count_cell(row, "tokens_prompt", "prompt_tokens") - cached),
        "cached_input": cached,
        "output": count_cell(row, "tokens_completion", "completion_tokens"),
    }
    yield from _token_lines(day, model, counts)
    # With one's own key: what the host behind asks, which is not in `usage`.
    own = dollars_cell(row, "byok_usage_inference") if row.get("byok_usage_inference") else Decimal()
    yield InvoiceLine(day, model, ALL, usd=dollars_cell(row, *_OPENROUTER_COSTS) + own)


_READERS: Mapping[InvoiceFormat, Callable[[set[str]], Callable[[Row], Iterator[InvoiceLine]]]] = {
    "openai": _read_openai,
    "anthropic": _read_anthropic,
    "bedrock": _read_bedrock,
    "openrouter": _read_openrouter,
}


def _token_lines(day: datetime.date, model: str, counts: Mapping[str, int]) -> Iterator[InvoiceLine]:
    for kind, count in counts.items():
        if count:
            yield InvoiceLine(day, model, kind, count)
