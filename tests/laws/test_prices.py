"""Prices: what tokens cost, to the millionth of a dollar, and which price holds when."""

import datetime
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as some

from app.billing.cost import PriceIndex, cost_microusd, find_price
from app.domain import Price
from app.store import snapshots
from providers.canonical.chat import Usage

TOKENS = some.integers(0, 10_000_000)
# As price lists have them: dollars for a million tokens with a few digits behind the point.
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


def exactly(amount: float) -> Fraction:
    return Fraction(Decimal(str(amount)))


@given(TOKENS, TOKENS, TOKENS, USD, USD, some.none() | USD)
def test_a_cost_is_what_exact_arithmetic_says_rounded_once(
    input: int, output: int, cached: int, dear: float, out: float, cheap: float | None
):
    cached = min(cached, input)
    cost = cost_microusd(Usage(input, output, cached, reasoning=output), price(dear, out, cheap))
    exact = (input - cached) * exactly(dear) + cached * exactly(dear if cheap is None else cheap) + output * exactly(out)
    rounded = Decimal(exact.numerator) / Decimal(exact.denominator)
    assert cost == int(rounded.quantize(Decimal(1), ROUND_HALF_UP))


def test_halves_are_rounded_up_even_where_floating_point_loses_them():
    assert 50 * 0.29 < 14.5, "14.499999999999998: a sum of floating-point numbers would be rounded down"
    assert cost_microusd(Usage(50, 0), price(0.29, 0)) == 15
    assert cost_microusd(Usage(1, 1), price(0.25, 0.25)) == 1, "rounded once, after the sum"


def test_cached_tokens_are_part_of_the_input_and_reasoning_of_the_output():
    assert cost_microusd(Usage(100, 10, 40, 7), price(2.0, 5.0, 0.5)) == 60 * 2 + 40 * 0.5 + 10 * 5
    assert cost_microusd(Usage(100, 10, None, None), price(2.0, 5.0, 0.5)) == 250
    assert cost_microusd(Usage(100, 10, 400), price(2.0, 5.0, 0.5)) == 100, "an engine that counts more cached than there are"


PARTS = some.lists(some.integers(0, 10**6), min_size=7, max_size=7)


@given(PARTS, some.lists(USD, min_size=8, max_size=8), some.sampled_from([None, 0.5, 2.0]))
def test_each_part_has_its_own_price_in_the_place_of_the_whole_s(parts: list[int], usd: list[float], factor: float | None):
    cached, hour, written, audio, image, spoken, rest = parts
    usage = Usage(
        cached + hour + written + audio + image + rest,
        spoken + rest,
        cached,
        cache_written=hour + written,
        cache_written_hour=hour,
        audio_input=audio,
        audio_output=spoken,
        image_input=image,
        tier=None if factor is None else "batch",
    )
    input, output, *others = usd
    listed = Price("p", "m", input, output, *others, tiers={} if factor is None else {"batch": factor})
    counts = (cached, written, hour, audio, spoken, image)
    exact = sum((count * exactly(each) for count, each in zip(counts, others, strict=True)), rest * (exactly(input) + exactly(output)))
    exact *= exactly(factor or 1.0)
    cost = cost_microusd(usage, listed)
    assert cost is not None and abs(cost - exact) <= Fraction(1, 2) + Fraction(1, 10**6)


def test_a_price_that_is_not_known_makes_no_cost_of_zero():
    assert cost_microusd(Usage(10, 10, tier="priority"), price()) is None
    assert cost_microusd(Usage(10, 10, cache_written=5, cache_written_hour=5), Price("p", "m", 1, 1, cache_write=1.25)) is None
    assert cost_microusd(Usage(10, 10, cache_written=5, cache_written_hour=5), Price("p", "m", 1, 1)) == 20
    assert cost_microusd(Usage(10, 10, cache_written=4, cache_written_hour=0), Price("p", "m", 1, 1, cache_write=2.0)) == 24


def test_what_was_not_counted_has_no_cost_unless_it_is_free():
    assert cost_microusd(Usage(), price()) is None
    assert cost_microusd(Usage(10, None), price()) is None
    assert cost_microusd(Usage(10, None), price(1.0, 0.0)) == 10
    assert cost_microusd(Usage(0, 0), price()) == 0


def at(day: str, clock: str = "00:00:00") -> float:
    return datetime.datetime.fromisoformat(f"{day}T{clock}+00:00").timestamp()


def test_a_price_holds_from_its_day_on_until_the_next():
    listed = [price(3.0, since="2026-07-01"), price(1.0), price(2.0, since="2026-01-01"), price(9.0, model="other")]
    now = snapshots.build_snapshot(1, {}, {}, prices=listed)
    told = {moment: find_price(now, "p", "m", moment) for moment in (0, at("2025-12-31", "23:59:59"), at("2026-01-01"), at("2026-07-02"))}
    assert [found and found.input for found in told.values()] == [1.0, 1.0, 2.0, 3.0]
    assert find_price(now, "p", "unknown", 0) is None and find_price(now, "q", "m", 0) is None
    assert find_price(snapshots.EMPTY, "p", "m", 0) is None


def test_before_its_first_day_a_model_has_no_price():
    now = snapshots.build_snapshot(1, {}, {}, prices=[price(since="2026-07-01")])
    assert find_price(now, "p", "m", at("2026-06-30", "23:59:59")) is None
    assert find_price(now, "p", "m", at("2026-07-01")) == now.prices[0]


def test_another_directory_has_its_own_prices():
    for amount in range(8):
        now = snapshots.build_snapshot(amount, {}, {}, prices=[price(float(amount))])
        found = find_price(now, "p", "m", 0)
        assert found is not None and found.input == amount


@given(some.lists(some.dates(datetime.date(1960, 1, 1), datetime.date(2100, 1, 1)), unique=True), some.dates(datetime.date(1970, 1, 1)))
def test_of_many_the_latest_that_has_begun_is_in_force(days: list[datetime.date], today: datetime.date):
    prices = [price(float(number), since=day.isoformat()) for number, day in enumerate(days)]
    found = PriceIndex(prices).find("p", "m", (today.toordinal() - datetime.date(1970, 1, 1).toordinal()) * 86_400)
    begun = [day for day in days if day <= today]
    assert (found and found.since) == (max(begun).isoformat() if begun else None)
