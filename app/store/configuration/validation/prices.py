"""Validation of prices."""

import datetime

from msgspec import Struct

from app.domain.errors import BadConfiguration
from app.domain.price_hours import minutes_of
from app.domain.prices import GpuPrice, Price
from app.domain.snapshot import Snapshot
from app.process.plain_numbers import plain_number
from app.store.configuration.validation.paths import price_key, price_path
from providers.canonical.tool_uses import KNOWN_TOOL_USES

# US dollars for a million tokens: a higher price is probably in another unit.
_MAX_PRICE = 1_000_000.0
_PRICE_FIELDS = (
    *("input", "output", "cached_input", "cache_write", "cache_write_hour", "cache_write_12_hours"),
    *("audio_input", "audio_output", "image_input"),
)
# How it was served, as dialects read it from responses. fast: of Anthropic; ultrafast: of OpenAI.
_TIERS = ("batch", "flex", "priority", "fast", "ultrafast")
_MAX_FACTOR = 100.0
_MAX_STEPS = 8
_MAX_HOURS = 32
_MAX_REGIONS = 32
_MAX_USE_PRICE = 100_000.0
_MAX_STEP_TOKENS = 1_000_000_000
_MAX_GPU_NUMBER = 100_000.0

# At most four bytes a character: two names and more must fit into one entry of a Postgres index (2704 bytes).
MAX_NAME_CHARACTERS = 200


def validate(wanted: Snapshot) -> None:
    """Raises BadConfiguration for the first invalid price."""
    seen_keys: set[tuple[str, str, str]] = set()
    for price in wanted.prices:
        path = price_path(price)
        if price_key(price) in seen_keys:
            raise BadConfiguration(f"{path} appears twice.")
        seen_keys.add(price_key(price))
        if price.provider not in wanted.providers:
            known = ", ".join(sorted(wanted.providers)) or "none yet"
            raise BadConfiguration(f"{path}.provider: there is no provider {price.provider!r}. There are: {known}.")
        if not price.model.strip() or not price.model.isprintable() or len(price.model) > MAX_NAME_CHARACTERS:
            raise BadConfiguration(f"{path:.100}.model must be the provider's own name of its model, not {price.model!r:.100}.")
        if price.source is not None and "\0" in price.source:
            raise BadConfiguration(f"{path}.source: a NUL character cannot be stored.")
        _check_form(price, path)
        for field in _PRICE_FIELDS:
            _check_amount(price, path, field)
        _check_steps(price, path)
        for tier, factor in price.tiers.items():
            if tier not in _TIERS:
                raise BadConfiguration(f"{path}.tiers may name {', '.join(_TIERS)}, not {tier!r:.60}.")
            _check_factor(factor, f"{path}.tiers.{tier}")
        _check_hours(price, path)
        _check_regions(price, path)
        _check_tool_uses(price, path)
        if price.since is not None:
            _check_day(price.since, path)


def _check_form(price: Price, path: str) -> None:
    """A price is of tokens or of time."""
    if price.gpu is None:
        missing = [name for name in ("input", "output") if getattr(price, name) is None]
        if missing:
            raise BadConfiguration(
                f"{path} lacks {' and '.join(missing)}: a price has `input` and `output`, or `gpu` for an engine's time."
            )
        return
    fields = [name for name in (*_PRICE_FIELDS, "tiers", "steps", "hours", "regions", "tool_uses") if getattr(price, name)]
    if fields:
        raise BadConfiguration(f"{path}: beside `gpu`, which prices an engine's time, {', '.join(fields)} cannot be priced.")
    _check_gpu(price.gpu, f"{path}.gpu")


def _check_gpu(gpu: GpuPrice, path: str) -> None:
    if not 0 <= gpu.usd_per_hour <= _MAX_GPU_NUMBER:
        raise BadConfiguration(
            f"{path}.usd_per_hour must be from 0 to {_MAX_GPU_NUMBER:,.0f} US dollars, not {plain_number(gpu.usd_per_hour)}."
        )
    for field in ("gpus", "concurrency", "tokens_per_s"):
        if not 0.001 <= (number := getattr(gpu, field)) <= _MAX_GPU_NUMBER:
            raise BadConfiguration(f"{path}.{field} must be from 0.001 to {_MAX_GPU_NUMBER:,.0f}, not {number:g}.")


def _check_steps(price: Price, path: str) -> None:
    if len(price.steps) > _MAX_STEPS:
        raise BadConfiguration(f"{path}.steps may have {_MAX_STEPS} entries, not {len(price.steps)}.")
    above = 0
    for at, step in enumerate(price.steps):
        if step.above <= above:
            raise BadConfiguration(f"{path}.steps[{at}].above must be more than {above}: steps are in growing order.")
        above = step.above
        if above > _MAX_STEP_TOKENS:
            raise BadConfiguration(f"{path}.steps[{at}].above must be at most {_MAX_STEP_TOKENS:,} tokens, not {above}.")
        for field in _PRICE_FIELDS:
            _check_amount(step, f"{path}.steps[{at}]", field)


def _check_factor(factor: float, path: str) -> None:
    if not 0 <= factor <= _MAX_FACTOR:
        raise BadConfiguration(f"{path} must be a factor from 0 to {_MAX_FACTOR:g}, not {factor:g}.")


def _check_hours(price: Price, path: str) -> None:
    if len(price.hours) > _MAX_HOURS:
        raise BadConfiguration(f"{path}.hours may have {_MAX_HOURS} entries, not {len(price.hours)}.")
    for at, each in enumerate(price.hours):
        place = f"{path}.hours[{at}]"
        _check_factor(each.factor, f"{place}.factor")
        if not each.days:
            raise BadConfiguration(f"{place}.days names no day: leave it out for all days.")
        if _minutes(each.start, f"{place}.start") >= _minutes(each.end, f"{place}.end"):
            raise BadConfiguration(f"{place}.end must be later than its start: write two entries for hours that go past midnight (24:00).")


def _minutes(clock: str, path: str) -> int:
    try:
        return minutes_of(clock)
    except ValueError:
        raise BadConfiguration(f"{path} must be a time from 00:00 to 24:00 in UTC, such as 16:30, not {clock!r:.40}.") from None


def _check_regions(price: Price, path: str) -> None:
    if len(price.regions) > _MAX_REGIONS:
        raise BadConfiguration(f"{path}.regions may have {_MAX_REGIONS} entries, not {len(price.regions)}.")
    for name, factor in price.regions.items():
        if not name.isprintable() or not 0 < len(name) <= MAX_NAME_CHARACTERS:
            raise BadConfiguration(f"{path:.100}.regions may name places as the host does, such as us, not {name!r:.60}.")
        _check_factor(factor, f"{path}.regions.{name}")


def _check_tool_uses(price: Price, path: str) -> None:
    for name, usd in price.tool_uses.items():
        if name not in KNOWN_TOOL_USES:
            raise BadConfiguration(f"{path}.tool_uses may name {', '.join(KNOWN_TOOL_USES)}, not {name!r:.60}.")
        if not 0 <= usd <= _MAX_USE_PRICE:
            raise BadConfiguration(
                f"{path}.tool_uses.{name} must be from 0 to {_MAX_USE_PRICE:,.0f} US dollars for a thousand uses, not {plain_number(usd)}."
            )


def _check_amount(price: Struct, path: str, field: str) -> None:
    amount: float | None = getattr(price, field)
    if amount is not None and not 0 <= amount <= _MAX_PRICE:
        raise BadConfiguration(
            f"{path}.{field} must be from 0 to {_MAX_PRICE:,.0f} US dollars for a million tokens, not {plain_number(amount)}."
        )


def _check_day(since: str, path: str) -> None:
    try:
        is_day = datetime.date.fromisoformat(since).isoformat() == since
    except ValueError:
        is_day = False
    if not is_day:
        raise BadConfiguration(f"{path}.since must be a day such as 2026-11-01, not {since!r}.")
