"""A refused request: its error names the models of the same key that would take it."""

import asyncio
from collections.abc import Iterator

from app.domain.routing import Target
from app.domain.serving_models import serving_targets
from app.gateway.request_translation.dropped_fields import extended_drops
from app.gateway.request_translation.recipient import TargetTerms
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.target_media import without_fetching
from app.gateway.request_translation.translate_request import translate_request
from app.gateway.routing.permissions import usable_models
from app.gateway.state.stages import Planned
from providers.canonical.errors import NarthexError, Unsupported
from providers.request_overrides.overrides import Scope

# The request is translated for each of them on the event loop, for nothing but an error's text.
_MAX_TARGETS = 12
_MAX_NAMED = 5


async def name_other_models(refusal: Unsupported, source: SourceRequest, planned: Planned) -> Unsupported:
    """The refusal, with the models that would take the request. As it is, where that would translate a large request."""
    if source.is_slow_to_translate:
        return refusal
    source = without_fetching(source)
    takers: list[str] = []
    tried = 0
    for model, serving, target in _other_targets(planned):
        if tried == _MAX_TARGETS or len(takers) == _MAX_NAMED:
            break
        if model in takers:
            continue
        tried += 1
        if await _takes_request(target, model, serving, source, planned):
            takers.append(model)
        await asyncio.sleep(0)
    else:
        if not takers:
            refusal.message += " No other model that this key may use takes the request as it is."
    if takers:
        refusal.message += f" Of the models that this key may use, these take it: {', '.join(takers)}."
    return refusal


def _other_targets(planned: Planned) -> Iterator[tuple[str, str, Target]]:
    """Yields the targets of each other model that the key may use, in the order of the models' names.

    Before the target come that model and the one that the target belongs to: itself or an arm of its
    experiment.
    """
    plan = planned.plan
    for model in sorted(usable_models(plan.snapshot, planned.admitted.caller)):
        if model not in plan.names and model != plan.experiment_model:
            for serving, target in serving_targets(plan.snapshot.models, model):
                yield model, serving, target


async def _takes_request(target: Target, model: str, serving: str, source: SourceRequest, planned: Planned) -> bool:
    terms = TargetTerms(
        Scope(serving, target.provider),
        planned.plan.snapshot.models[serving].capabilities,
        extended_drops(source.terms, (model, serving), target.provider),
    )
    for endpoint in planned.endpoint_table.endpoints_of(target)[:1]:
        try:
            await translate_request(source, endpoint, target, terms)
        except NarthexError:
            return False
        return True
    return False
