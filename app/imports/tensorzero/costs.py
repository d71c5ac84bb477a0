"""The `cost` of a provider: rates for numbers in its responses, as a price for a million tokens."""

from collections.abc import Mapping

from app.domain.prices import Price
from app.imports.draft import Draft
from app.imports.source_table import SourceTable

_MILLION = 1_000_000
# Pointers into responses, and our name of what they count. Cached tokens of Anthropic are beside the input; of others they are part of it.
_FIELDS: Mapping[str, str] = {
    "/usage/prompt_tokens": "input",
    "/usage/input_tokens": "input",
    "/usage/inputTokens": "input",
    "/usageMetadata/promptTokenCount": "input",
    "/usage/completion_tokens": "output",
    "/usage/output_tokens": "output",
    "/usage/outputTokens": "output",
    "/usageMetadata/candidatesTokenCount": "output",
    "/usage/cache_read_input_tokens": "cached_input",
    "/usage/cacheReadInputTokens": "cached_input",
    "/usage/cache_creation_input_tokens": "cache_write",
    "/usage/cacheWriteInputTokens": "cache_write",
}
_CACHED_PARTS = (
    "/usage/prompt_tokens_details/cached_tokens",
    "/usage/input_tokens_details/cached_tokens",
    "/usageMetadata/cachedContentTokenCount",
    "/usage/prompt_cache_hit_tokens",
)
_PARTS_OF_OUTPUT = ("/usageMetadata/thoughtsTokenCount",)


def add_price(draft: Draft, provider: str, model: str, table: SourceTable) -> None:
    """Add the price of a provider's model, if its `cost` is of tokens."""
    fields: dict[str, float] = {}
    discount: float | None = None
    for each in table.tables("cost"):
        pointer = each.text("pointer") or each.text("pointer_nonstreaming")
        for key in ("pointer_nonstreaming", "pointer_streaming", "required"):
            each.read(key)
        per_unit = each.number("cost_per_unit")
        rate = each.number("cost_per_million") if per_unit is None else per_unit * _MILLION
        if pointer is None or rate is None:
            table.report.leave_out(each.path, "It has no pointer, or no rate.")
        elif pointer in _FIELDS:
            fields[_FIELDS[pointer]] = rate
        elif pointer in _CACHED_PARTS:
            discount = rate
        elif pointer not in _PARTS_OF_OUTPUT or rate != fields.get("output"):
            table.report.leave_out(each.path, "Prices are of tokens: input, output, and what is read from and written into a cache.")
    if not fields:
        return
    if "input" in fields and discount is not None:
        fields["cached_input"] = fields["input"] + discount
    prices = {name: float(f"{rate:.12g}") for name, rate in fields.items()}
    draft.add_price(
        Price(
            provider,
            model,
            input=prices.get("input", 0.0),
            output=prices.get("output", 0.0),
            cached_input=prices.get("cached_input"),
            cache_write=prices.get("cache_write"),
        ),
        table.path_of("cost"),
    )
