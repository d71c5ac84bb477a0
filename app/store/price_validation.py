"""Validation of prices."""

import datetime

from msgspec import Struct

from app.domain import GpuPrice, Price, Snapshot
from app.store.config_file import price_path
from app.store.errors import BadConfiguration
from app.store.snapshots import price_key

# US dollars for a million tokens: a higher price is probably in another unit.
_MAX_PRICE = 1_000_000.0
_PRICE_FIELDS = (
    *("input", "output", "cached_input", "cache_write", "cache_write_hour"),
    *("audio_input", "audio_output", "image_input"),
)
_TIERS = ("batch", "flex", "priority")
_MAX_FACTOR = 100.0
_MAX_STEPS = 8
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
            if not 0 <= factor <= _MAX_FACTOR:
                raise BadConfiguration(f"{path}.tiers.{tier} must be a factor from 0 to {_MAX_FACTOR:g}, not {factor:g}.")
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
    fields = [name for name in (*_PRICE_FIELDS, "tiers", "steps") if getattr(price, name)]
    if fields:
        raise BadConfiguration(f"{path}: beside `gpu`, which prices an engine's time, {', '.join(fields)} cannot be priced.")
    _check_gpu(price.gpu, f"{path}.gpu")


def _check_gpu(gpu: GpuPrice, path: str) -> None:
    if not 0 <= gpu.usd_per_hour <= _MAX_GPU_NUMBER:
        raise BadConfiguration(f"{path}.usd_per_hour must be from 0 to {_MAX_GPU_NUMBER:,.0f} US dollars, not {gpu.usd_per_hour:g}.")
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


def _check_amount(price: Struct, path: str, field: str) -> None:
    amount: float | None = getattr(price, field)
    if amount is not None and not 0 <= amount <= _MAX_PRICE:
        raise BadConfiguration(f"{path}.{field} must be from 0 to {_MAX_PRICE:,.0f} US dollars for a million tokens, not {amount:g}.")


def _check_day(since: str, path: str) -> None:
    try:
        is_day = datetime.date.fromisoformat(since).isoformat() == since
    except ValueError:
        is_day = False
    if not is_day:
        raise BadConfiguration(f"{path}.since must be a day such as 2026-11-01, not {since!r}.")
