"""What a request takes from limits: an estimate before it, what was spent after it."""

from msgspec import Struct

from app.store.counters.commands import Amounts

# More than the amount of any rule, and exact in a double.
_MOST = 2**54


class Need(Struct, frozen=True):
    """Besides the request itself and its place among those that run. `cost_microusd` None: the model has no price."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int | None = 0

    def amounts(self) -> Amounts:
        """As they are counted. What a caller says may be any number; the scripts' are doubles, and signed when they arrive there."""
        input, output = min(self.input_tokens, _MOST), min(self.output_tokens, _MOST)
        return (1, input, output, min(input + output, _MOST), min(self.cost_microusd or 0, _MOST), 1)


# The same words after the fact.
Spent = Need

NOTHING: Amounts = (0, 0, 0, 0, 0, 0)
