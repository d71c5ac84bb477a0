"""What a request takes from limits: an estimate before it, what was spent after it."""

from msgspec import Struct

from app.store.counters.commands import Amounts


class Need(Struct, frozen=True):
    """Besides the request itself and its place among those that run. `cost_microusd` None: the model has no price."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int | None = 0

    def amounts(self) -> Amounts:
        return (1, self.input_tokens, self.output_tokens, self.input_tokens + self.output_tokens, self.cost_microusd or 0, 1)


# The same words after the fact.
Spent = Need

NOTHING: Amounts = (0, 0, 0, 0, 0, 0)
