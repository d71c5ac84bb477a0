"""The bill: what a request is thought to need before it is answered, and what is charged for it afterwards."""

from msgspec.structs import replace

from app.billing.cost import cost_microusd, find_price
from app.domain import Exchange, Plan
from app.gateway.limits.usage_amounts import ActualUsage, UsageEstimate
from providers.canonical.chat import Usage
from providers.dialect import InboundRequest


def estimate_usage(request: InboundRequest, plan: Plan, default_output_tokens: int, at_s: float) -> UsageEstimate:
    """The estimate for the plan's own model. `unbounded_tokens`: for an answer of unbounded length, where its model does not say."""
    return estimate_model_usage(request, plan, plan.name, default_output_tokens, at_s)


def estimate_model_usage(request: InboundRequest, plan: Plan, name: str, default_output_tokens: int, at_s: float) -> UsageEstimate:
    """For one of the plan's models: at the price of its dearest target; without a price for one of them, at none."""
    output = request.output_tokens
    if output is None:
        output = (plan.snapshot.models[name].output_tokens or default_output_tokens) * request.choices
    cost: int | None = None
    if plan.snapshot.prices:
        usage = Usage(request.input_tokens, output)
        targets = [target for target, model in zip(plan.targets, plan.names, strict=True) if model == name]
        costs = [cost_of(plan, target.provider, target.model, usage, at_s) for target in targets]
        cost = None if None in costs else max((each for each in costs if each is not None), default=None)
    return UsageEstimate(request.input_tokens, output, cost)


def charged_usage(usage: Usage | None, estimated_input: int, written_tokens: int) -> Usage:
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
    price = find_price(plan.snapshot, provider, model, at_s)
    return None if price is None else cost_microusd(usage, price)


def actual_usage(exchange: Exchange) -> ActualUsage:
    return ActualUsage(exchange.charged_input, exchange.charged_output, exchange.cost_microusd)
