"""Chooses which requests are answered again, and says why others are not. All functions are pure."""

import hashlib
from typing import Literal

from app.domain.callers import Caller
from app.domain.routing import ShadowConfig
from app.domain.snapshot import Plan, Snapshot
from app.gateway.routing.permissions import may_use

# Why a request that was drawn is not answered again.
# content_policy: its team does not let what was written be kept. not_allowed: its key may not use the model. same_variant: the variant that
# is compared answered it already. unanswered: it never reached an engine, or its caller left. overloaded: the process has enough to do.
# queue: too many wait. size: too many bytes would be held. waited: it waited for too long. concurrency is a reason to wait.
# rate, budget: `per_minute`, `usd_per_day`. limit: another one, such as of the team that pays. no_price: a limit of cost has nothing to
# count. limits_unavailable: Redis is away. side_effects: the host would do something besides writing. invalid: the variant's templates
# refuse it. changed: another configuration is in force by now. spool: nothing can be recorded. shutdown. error: the log has more.
DropReason = Literal[
    "content_policy",
    "not_allowed",
    "same_variant",
    "unanswered",
    "overloaded",
    "queue",
    "size",
    "waited",
    "concurrency",
    "rate",
    "budget",
    "limit",
    "no_price",
    "limits_unavailable",
    "side_effects",
    "invalid",
    "changed",
    "spool",
    "shutdown",
    "error",
]


def shadow_name(plan: Plan) -> str:
    """The function or model that the caller named."""
    return plan.function or plan.experiment_model or plan.name


def config_of(snapshot: Snapshot, name: str) -> ShadowConfig | None:
    """The shadow of a function or model, if its team is known."""
    owner = snapshot.functions.get(name) or snapshot.models.get(name)
    shadow = None if owner is None else owner.shadow
    return None if shadow is None or shadow.team not in snapshot.shadow_teams else shadow


def is_drawn(share: float, name: str, inference_id: str) -> bool:
    """The same for every process. A larger share draws all that a smaller one does."""
    digest = hashlib.blake2b(inference_id.encode(), digest_size=8, person=b"shadow", key=name.encode()[:64]).digest()
    return int.from_bytes(digest) < share * 2**64


def find_objection(plan: Plan, shadow: ShadowConfig, caller: Caller) -> DropReason | None:
    """Returns why this request, which `caller` sent, may not be answered again, or None if it may.

    What is written goes to a model that the caller did not choose, and is kept by those who compare. So this
    is done only where the team lets it be kept. Variants of a function need no permission of their own, as
    ever.
    """
    if caller.content not in ("full", "masked"):
        return "content_policy"
    if plan.function is None and not may_use(caller, shadow.to):
        return "not_allowed"
    if shadow.to == (plan.variant if plan.variant is not None else plan.name):
        return "same_variant"
    return None
