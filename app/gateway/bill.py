"""The bill: what a request is thought to need before it is answered, and what is charged for it afterwards."""

from msgspec.structs import replace

from app.domain import Exchange, Plan
from app.gateway.limits.need import Need, Spent
from app.insight.prices import cost_microusd, price_of
from providers.chat import Usage
from providers.dialect import Ask


def needed(ask: Ask, plan: Plan, unbounded_tokens: int, at_s: float) -> Need:
    """The estimate for the plan's own model. `unbounded_tokens`: for an answer of unbounded length, where its model does not say."""
    return needed_of(ask, plan, plan.name, unbounded_tokens, at_s)


def needed_of(ask: Ask, plan: Plan, name: str, unbounded_tokens: int, at_s: float) -> Need:
    """For one of the plan's models: at the price of its dearest target; without a price for one of them, at none."""
    output = ask.output_tokens
    if output is None:
        output = (plan.directory.models[name].output_tokens or unbounded_tokens) * ask.choices
    cost: int | None = None
    if plan.directory.prices:
        usage = Usage(ask.input_tokens, output)
        targets = [target for target, of in zip(plan.targets, plan.names, strict=True) if of == name]
        costs = [cost_of(plan, target.provider, target.model, usage, at_s) for target in targets]
        cost = None if None in costs else max((each for each in costs if each is not None), default=None)
    return Need(ask.input_tokens, output, cost)


def charged(usage: Usage | None, estimated_input: int, written_tokens: int) -> Usage:
    """What was used: what the engine told, and where it told nothing, what went in and about what came out."""
    if usage is None:
        return Usage(estimated_input, written_tokens)
    if usage.input is not None and usage.output is not None:
        return usage
    return replace(
        usage,
        input=estimated_input if usage.input is None else usage.input,
        output=written_tokens if usage.output is None else usage.output,
    )


def cost_of(plan: Plan, provider: str, model: str, usage: Usage, at_s: float) -> int | None:
    """In millionths of a US dollar, by the price at a Unix time; None without one."""
    price = price_of(plan.directory, provider, model, at_s)
    return None if price is None else cost_microusd(usage, price)


def spent(exchange: Exchange) -> Spent:
    return Spent(exchange.charged_input, exchange.charged_output, exchange.cost_microusd)
