"""Prices of an entry, which LiteLLM gives in US dollars for one token."""

import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from app.domain.prices import GpuPrice, Price, PriceStep
from app.imports.draft import Draft
from app.imports.source_table import SourceTable

_TOKENS = 1_000_000
_SECONDS_PER_HOUR = 3600
# LiteLLM's name of a price, and ours.
_FIELDS: Mapping[str, str] = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cached_input",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_hour",
    "input_cost_per_audio_token": "audio_input",
    "output_cost_per_audio_token": "audio_output",
    "input_cost_per_image_token": "image_input",
}
_STEP = re.compile(r"_above_(\d{1,4})k_tokens$")
_SECOND = ("input_cost_per_second", "output_cost_per_second")


def add_price(draft: Draft, provider: str, model: str, *tables: SourceTable) -> None:
    """Add the price of a target, if one of the tables has it; the first table counts first."""
    fields, steps = dict(_read_fields(tables)), _read_steps(tables)
    seconds = [number for table in tables for key in _SECOND if (number := table.number(key)) is not None]
    path = tables[0].path
    if "input" in fields or "output" in fields:
        base = {"input": 0.0, "output": 0.0} | fields
        ordered = tuple(
            PriceStep(above=above, **{"input": base["input"], "output": base["output"]} | step) for above, step in sorted(steps.items())
        )
        price = msgspec.convert({"provider": provider, "model": model, **base}, Price)
        draft.add_price(replace(price, steps=ordered), path)
        if seconds:
            draft.report.leave_out(path, "A price is of tokens or of time: that of tokens is used, and not that of seconds.")
    elif sum(seconds) > 0:
        # A request costs its seconds times this, if an endpoint serves one at a time.
        draft.add_price(Price(provider, model, gpu=GpuPrice(usd_per_hour=_rounded(sum(seconds) * _SECONDS_PER_HOUR))), path)
        if fields:
            draft.report.leave_out(path, "A price is of tokens or of time: that of seconds is used, and not those of tokens.")
    elif fields or steps:
        draft.report.leave_out(path, "A price needs input_cost_per_token and output_cost_per_token.")


def _read_fields(tables: tuple[SourceTable, ...]) -> Iterator[tuple[str, float]]:
    for name, field in _FIELDS.items():
        numbers = [number for table in tables if (number := table.number(name)) is not None]
        if numbers:
            yield field, _rounded(numbers[0] * _TOKENS)


def _read_steps(tables: tuple[SourceTable, ...]) -> dict[int, dict[str, float]]:
    """Prices of long requests, by the number of tokens above which they hold."""
    steps: dict[int, dict[str, float]] = {}
    for table in tables:
        for key in table.keys:
            match = _STEP.search(key)
            field = _FIELDS.get(key[: match.start()]) if match else None
            if match is None or field is None or (number := table.number(key)) is None:
                continue
            steps.setdefault(int(match[1]) * 1000, {}).setdefault(field, _rounded(number * _TOKENS))
    return steps


def _rounded(amount: float) -> float:
    """Rounds off the last digits that a multiplication of binary fractions leaves.

    For example, 0.000421 times a million is 421.00000000000006.
    """
    return float(f"{amount:.12g}")
