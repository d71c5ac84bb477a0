"""Usage amounts: a request takes an estimate from limits before it, and the actual usage after it."""

from msgspec import Struct

from app.gateway.limits.counters.commands import Amounts

# More than the amount of any rule, and exact in a double.
_MAX_AMOUNT = 2**54

NO_AMOUNTS: Amounts = (0, 0, 0, 0, 0, 0)


class _Usage(Struct, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int | None = 0

    def amounts(self) -> Amounts:
        """One number for each of rules.RESOURCES: one request, its tokens and cost, one place.

        Capped, as a caller may claim any number, and the scripts count in doubles and read signed integers.
        """
        input, output = min(self.input_tokens, _MAX_AMOUNT), min(self.output_tokens, _MAX_AMOUNT)
        return (1, input, output, min(input + output, _MAX_AMOUNT), min(self.cost_microusd or 0, _MAX_AMOUNT), 1)


ONE_PLACE: Amounts = (0, 0, 0, 0, 0, 1)


class UsageEstimate(_Usage, frozen=True):
    """The most that a request may use, as far as it can be known before.

    `cost_microusd` is None if the model has no price.
    """


class ActualUsage(_Usage, frozen=True):
    """The usage of a request.

    `cost_microusd` is None if the model has no price, so a rule about cost counts nothing.
    """
