"""What a request takes from limits: an estimate before it, what was spent after it."""

from msgspec import Struct

from app.store.counters.commands import Amounts

# More than the amount of any rule, and exact in a double.
_MAX_AMOUNT = 2**54


class UsageEstimate(Struct, frozen=True):
    """Besides the request itself and its place among those that run. `cost_microusd` None: the model has no price."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int | None = 0

    def amounts(self) -> Amounts:
        """As they are counted. What a caller says may be any number; the scripts' are doubles, and signed when they arrive there."""
        input, output = min(self.input_tokens, _MAX_AMOUNT), min(self.output_tokens, _MAX_AMOUNT)
        return (1, input, output, min(input + output, _MAX_AMOUNT), min(self.cost_microusd or 0, _MAX_AMOUNT), 1)


# The same words after the fact.
ActualUsage = UsageEstimate

NO_AMOUNTS: Amounts = (0, 0, 0, 0, 0, 0)
