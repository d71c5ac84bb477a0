"""Checks that a replay can start, before anything is chosen, so that nobody finds out by its first item."""

import time
from collections.abc import Mapping
from typing import Any

from app.billing.price_index import find_price
from app.domain.callers import Caller
from app.domain.functions import FunctionConfig
from app.domain.replay_refusals import REFUSALS
from app.domain.snapshot import Snapshot
from app.gateway.routing.permissions import may_use
from app.store.replays.replays import Judge, ReplayDefinition
from providers.canonical.errors import InvalidRequest


def check_order(snapshot: Snapshot, caller: Caller, definition: ReplayDefinition) -> None:
    """Raises InvalidRequest for a replay that could not run. `caller` is that of the key that pays."""
    if caller.networks is not None:
        raise InvalidRequest("The key may only be used from some networks, in which no replay is: give another one.", param="key")
    _check_target(snapshot, caller, definition)
    if definition.judge is not None:
        _check_judge(snapshot, caller, definition.judge, definition.max_usd)


def describe_nothing(refused: Mapping[str, int]) -> str:
    if not refused:
        return "There is nothing to replay: no inference matches. Those that callers did not wait for are left out."
    reasons = "; ".join(f"{count} {REFUSALS.get(reason, reason)}" for reason, count in sorted(refused.items()))
    return f"There is nothing to replay: no inference that matches has the content that a replay needs. They are: {reasons}."


def _check_target(snapshot: Snapshot, caller: Caller, body: ReplayDefinition) -> None:
    model, function = snapshot.models.get(body.model), snapshot.functions.get(body.model)
    if (model is None and function is None) or not may_use(caller, body.model):
        raise InvalidRequest(f"There is no model or function {body.model!r:.100} that this key may use.", param="model")
    if model is None:
        assert function is not None
        _check_variant(body.model, function, body.variant)
        names = {function.variants[body.variant].model} if body.variant else {each.model for each in function.variants.values()}
        if body.variant is None and (function.experiment is not None or len(function.variants) > 1):
            several = f"The function {body.model!r:.100} has several variants: say which one in `variant`."
            raise InvalidRequest(f"{several} {_listed(function.variants)}", param="variant")
    else:
        arms: Mapping[str, float] = {} if model.experiment is None else model.experiment.arms
        if body.variant is not None and body.variant not in arms:
            raise InvalidRequest(f"The model {body.model!r:.100} has no arm {body.variant!r:.100}. {_listed(arms)}", param="variant")
        if arms and body.variant is None:
            raise InvalidRequest(
                f"The model {body.model!r:.100} has an experiment: say which arm in `variant`. {_listed(arms)}", param="variant"
            )
        names = {body.variant} if body.variant in snapshot.models else {body.model}
    if body.max_usd is not None:
        _check_prices(snapshot, [name for name in names if name is not None])


def _check_prices(snapshot: Snapshot, names: list[str]) -> None:
    for name in names:
        for target in snapshot.models[name].targets:
            if find_price(snapshot, target.provider, target.model, time.time()) is None:
                raise InvalidRequest(
                    f"`max_usd` cannot hold: {target.provider}/{target.model}, which serves {name!r:.100}, has no price. Give it one"
                    " (`[[prices]]`), or leave out `max_usd`.",
                    param="max_usd",
                )


def _check_judge(snapshot: Snapshot, caller: Caller, judge: Judge, max_usd: float | None) -> None:
    function = snapshot.functions.get(judge.function)
    if function is None or not may_use(caller, judge.function):
        raise InvalidRequest(f"There is no function {judge.function!r:.100} that this key may use.", param="judge.function")
    if function.type != "json":
        raise InvalidRequest(
            f"The function {judge.function!r:.100} cannot judge: its type must be json, with a number `score` in its output.",
            param="judge.function",
        )
    _check_variant(judge.function, function, judge.variant, "judge.variant")
    if judge.variant is None and function.experiment is not None:
        raise InvalidRequest(
            f"The function {judge.function!r:.100} has an experiment, and another judge is another measure: say which variant in"
            f" `judge.variant`. {_listed(function.variants)}",
            param="judge.variant",
        )
    if max_usd is not None:
        _check_prices(snapshot, [function.variants[judge.variant or function.default or next(iter(function.variants))].model])


def _check_variant(name: str, function: FunctionConfig, variant: str | None, param: str = "variant") -> None:
    if variant is not None and variant not in function.variants:
        raise InvalidRequest(f"The function {name!r:.100} has no variant {variant!r:.100}. {_listed(function.variants)}", param=param)


def _listed(names: Mapping[str, Any]) -> str:
    return f"It has: {', '.join(sorted(names)[:50])}." if names else "It has none."
