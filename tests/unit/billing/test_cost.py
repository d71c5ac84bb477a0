"""Costs: what tokens cost, to the millionth of a dollar, and which price applies when."""

import datetime
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from app.billing.cost import cost_microusd
from app.billing.price_index import PriceIndex, find_price
from app.domain.prices import Price
from app.store.configuration import snapshots
from providers.canonical.chat import Usage

TOKENS = some.integers(0, 10_000_000)
# Dollars for a million tokens, with the few decimal places of price lists.
USD = some.decimals(0, 1000, places=4).map(float)


def price(
    input: float = 1.0,
    output: float = 2.0,
    cached_input: float | None = None,
    provider: str = "p",
    model: str = "m",
    since: str | None = None,
) -> Price:
    return Price(provider=provider, model=model, input=input, output=output, cached_input=cached_input, since=since)


def exact_fraction(amount: float) -> Fraction:
    return Fraction(Decimal(str(amount)))


@given(TOKENS, TOKENS, TOKENS, USD, USD, some.none() | USD)
def test_cost_equals_exact_arithmetic_rounded_once(
    input: int, output: int, cached: int, input_usd: float, output_usd: float, cached_usd: float | None
):
    cached = min(cached, input)
    cost = cost_microusd(Usage(input, output, cached, reasoning=output), price(input_usd, output_usd, cached_usd))
    exact = (
        (input - cached) * exact_fraction(input_usd)
        + cached * exact_fraction(input_usd if cached_usd is None else cached_usd)
        + output * exact_fraction(output_usd)
    )
    rounded = Decimal(exact.numerator) / Decimal(exact.denominator)
    assert cost == int(rounded.quantize(Decimal(1), ROUND_HALF_UP))


def test_half_a_microusd_is_rounded_up_despite_floating_point():
    assert 50 * 0.29 < 14.5, "14.499999999999998: a sum of floating-point numbers would be rounded down"
    assert cost_microusd(Usage(50, 0), price(0.29, 0)) == 15
    assert cost_microusd(Usage(1, 1), price(0.25, 0.25)) == 1, "rounded once, after the sum"


def test_cached_tokens_are_part_of_input_and_reasoning_of_output():
    assert cost_microusd(Usage(100, 10, 40, 7), price(2.0, 5.0, 0.5)) == 60 * 2 + 40 * 0.5 + 10 * 5
    assert cost_microusd(Usage(100, 10, None, None), price(2.0, 5.0, 0.5)) == 250
    assert cost_microusd(Usage(100, 10, 400), price(2.0, 5.0, 0.5)) == 100, "an engine may count more cached tokens than input tokens"


PARTS = some.lists(some.integers(0, 10**6), min_size=8, max_size=8)


@given(PARTS, some.lists(USD, min_size=9, max_size=9), some.sampled_from([None, 0.5, 2.0]))
def test_each_token_kind_is_charged_at_its_own_price(parts: list[int], usd: list[float], factor: float | None):
    cached, hour, half_day, written, audio, image, audio_out, rest = parts
    usage = Usage(
        cached + hour + half_day + written + audio + image + rest,
        audio_out + rest,
        cached,
        cache_written=hour + half_day + written,
        cache_written_hour=hour,
        cache_written_12_hours=half_day,
        audio_input=audio,
        audio_output=audio_out,
        image_input=image,
        tier=None if factor is None else "batch",
    )
    input, output, *others = usd
    kinds = ("cached_input", "cache_write", "cache_write_hour", "cache_write_12_hours", "audio_input", "audio_output", "image_input")
    others_by_kind = dict(zip(kinds, others, strict=True))
    listed = Price("p", "m", input=input, output=output, tiers={} if factor is None else {"batch": factor}, **others_by_kind)
    counts = (cached, written, hour, half_day, audio, audio_out, image)
    exact = sum(
        (count * exact_fraction(each) for count, each in zip(counts, others, strict=True)),
        rest * (exact_fraction(input) + exact_fraction(output)),
    )
    exact *= exact_fraction(factor or 1.0)
    cost = cost_microusd(usage, listed)
    assert cost is not None and abs(cost - exact) <= Fraction(1, 2) + Fraction(1, 10**6)


def test_unknown_price_gives_no_cost_instead_of_zero():
    assert cost_microusd(Usage(10, 10, tier="priority"), price()) is None
    assert cost_microusd(Usage(10, 10, cache_written=5, cache_written_hour=5), Price("p", "m", input=1, output=1, cache_write=1.25)) is None
    assert cost_microusd(Usage(10, 10, cache_written=5, cache_written_hour=5), Price("p", "m", input=1, output=1)) == 20
    assert cost_microusd(Usage(10, 10, cache_written=4, cache_written_hour=0), Price("p", "m", input=1, output=1, cache_write=2.0)) == 24


def test_uncounted_tokens_give_no_cost_unless_they_are_free():
    assert cost_microusd(Usage(), price()) is None
    assert cost_microusd(Usage(10, None), price()) is None
    assert cost_microusd(Usage(10, None), price(1.0, 0.0)) == 10
    assert cost_microusd(Usage(0, 0), price()) == 0


def test_billed_tokens_are_priced_where_a_host_bills_others_than_it_processed():
    tokens = Usage(100, 20, cached=90, reasoning=15, billed_input=7, billed_output=5)
    assert cost_microusd(tokens, price(2.0, 5.0, 0.5)) == 7 * 2 + 5 * 5
    assert cost_microusd(replace(tokens, billed_output=None), price(2.0, 5.0, 0.5)) == 7 * 2 + 20 * 5
    assert cost_microusd(replace(tokens, billed_input=None), price(2.0, 5.0, 0.5)) == 10 * 2 + 90 * 0.5 + 5 * 5
    assert cost_microusd(replace(tokens, billed_input=0, billed_output=0), price(2.0, 5.0, 0.5)) == 0


def timestamp(day: str, clock: str = "00:00:00") -> float:
    return datetime.datetime.fromisoformat(f"{day}T{clock}+00:00").timestamp()


def test_price_applies_from_its_date_until_the_next():
    listed = [price(3.0, since="2026-07-01"), price(1.0), price(2.0, since="2026-01-01"), price(9.0, model="other")]
    now = snapshots.build_snapshot(1, {}, {}, prices=listed)
    price_at = {
        moment: find_price(now, "p", "m", moment)
        for moment in (0, timestamp("2025-12-31", "23:59:59"), timestamp("2026-01-01"), timestamp("2026-07-02"))
    }
    assert [current and current.input for current in price_at.values()] == [1.0, 1.0, 2.0, 3.0]
    assert find_price(now, "p", "unknown", 0) is None and find_price(now, "q", "m", 0) is None
    assert find_price(snapshots.EMPTY, "p", "m", 0) is None


def test_model_has_no_price_before_its_first_date():
    now = snapshots.build_snapshot(1, {}, {}, prices=[price(since="2026-07-01")])
    assert find_price(now, "p", "m", timestamp("2026-06-30", "23:59:59")) is None
    assert find_price(now, "p", "m", timestamp("2026-07-01")) == now.prices[0]


def test_each_snapshot_has_its_own_prices():
    for amount in range(8):
        now = snapshots.build_snapshot(amount, {}, {}, prices=[price(float(amount))])
        current = find_price(now, "p", "m", 0)
        assert current is not None and current.input == amount


@given(some.lists(some.dates(datetime.date(1960, 1, 1), datetime.date(2100, 1, 1)), unique=True), some.dates(datetime.date(1970, 1, 1)))
def test_latest_started_price_applies(days: list[datetime.date], today: datetime.date):
    prices = [price(float(number), since=day.isoformat()) for number, day in enumerate(days)]
    current = PriceIndex(prices).find("p", "m", (today.toordinal() - datetime.date(1970, 1, 1).toordinal()) * 86_400)
    started = [day for day in days if day <= today]
    assert (current and current.price.since) == (max(started).isoformat() if started else None)
