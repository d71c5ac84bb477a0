"""The source request that one target is sent, on its terms; and what a refusal changes about it."""

from collections.abc import Sequence

from app.domain.routing import Target
from app.gateway.attempts.reasoning_state import is_state_refusal
from app.gateway.attempts.serving import Serving, TargetRun
from app.gateway.attempts.target_order import model_of
from app.gateway.fleet.endpoint import Endpoint
from app.gateway.learned_rules.store import LearnedRuleStore
from app.gateway.request_translation.dropped_fields import extended_drops
from app.gateway.request_translation.recipient import TargetTerms
from app.gateway.request_translation.refusal_reader import RefusalReader
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translated_request import TranslatedRequest
from providers.canonical.errors import UpstreamError
from providers.request_overrides.overrides import Scope


async def find_source(serving: Serving, model_name: str, target: Target) -> tuple[SourceRequest, TargetTerms, Sequence[str]]:
    """The source request for a target, its terms, and the paths of what that request does not have. See ProviderSources."""
    source, left_out = await serving.sources.of(target.provider)
    plan, variant = serving.attempted.planned.plan, serving.attempted.variant
    may_drop = None
    if source.terms.operator_drops is not None:
        requested = () if plan.experiment_model is None else (plan.experiment_model,)
        may_drop = extended_drops(source.terms, (*requested, model_of(plan, variant), model_name), target.provider)
    scope = Scope(model_name, target.provider, variant)
    return source, TargetTerms(scope, plan.snapshot.models[model_name].capabilities, may_drop), left_out


async def adapt_to_refusal(
    error: UpstreamError, store: LearnedRuleStore, serving: Serving, run: TargetRun, endpoint: Endpoint, translated: TranslatedRequest
) -> bool:
    """Whether the target is to be tried once more, as the request is now without what its host refused."""
    attempted, target, source = serving.attempted, run.target, run.source
    reader = run.refusals = run.refusals or RefusalReader(store, target)
    is_adapted = False
    if is_state_refusal(error) or reader.blames_dropped_blocks(error):
        is_adapted = reader.drop_bound_blocks(error, translated, source, endpoint.provider)
        if not is_adapted:
            reader.forget_blocks(source)
            if await serving.sources.leave_state_out(endpoint.provider.configured_as):
                is_adapted = True
    newest = attempted.attempts[-1]
    if not is_adapted and (newest.provider, newest.model) == (target.provider, target.model):  # a hedge may have gone elsewhere
        # An account of a caller's own may lack what others have.
        is_callers_own = attempted.call is not None and attempted.call.credential_client.is_callers_own
        is_adapted = await reader.learn(error, translated, source, may_share=not (is_callers_own or attempted.is_shadow))
    if is_adapted:
        run.source, run.terms, run.left_out = await find_source(serving, run.model_name, target)
    return is_adapted
