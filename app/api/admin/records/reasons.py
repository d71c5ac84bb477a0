"""Reasons: why a request was slow, dear, sent there, failed or was refused, each as a sentence with the numbers that it is made of."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from app.domain.exchange import ChargeBasis, Outcome

Sentence = Annotated[str, Meta(description="The reason, in one or more sentences.")]
Salient = Annotated[bool, Meta(description="It is not what is usual: look at this first.")]


class LatencyEvidence(Struct, frozen=True, kw_only=True):
    """The parts of the time, in microseconds. One is null where it was not recorded."""

    part: Annotated[
        Literal["waiting", "failed_attempts", "first_token", "generation", "response"],
        Meta(description="The largest part; `response`: the response came whole, so nothing is known of its parts."),
    ]
    duration_us: Annotated[int, Meta(description="From the request to the end of the response.")]
    waiting_us: Annotated[int | None, Meta(description="Until the first attempt began: the key, limits, the plan, a queue.")]
    failed_attempts_us: Annotated[int, Meta(description="Lost on attempts that failed.")]
    first_token_us: Annotated[int | None, Meta(description="From the beginning of the attempt that served to its first token.")]
    generation_us: Annotated[int | None, Meta(description="From the first token to the end.")]
    usual_us: Annotated[int | None, Meta(description="The median of the same model's requests of the day before; null: there were few.")]


class CostEvidence(Struct, frozen=True, kw_only=True):
    """The charge, and what it is made of."""

    cost_microusd: Annotated[int | None, Meta(description="The cost; null: no price is known.")]
    failed_microusd: Annotated[int, Meta(description="The part of it for attempts that failed.")]
    basis: Annotated[ChargeBasis | None, Meta(description="How certain the tokens are; null: nothing was charged.")]
    price: Annotated[str | None, Meta(description="The price used, by its path below /admin/v1/prices/.")]


class RouteEvidence(Struct, frozen=True, kw_only=True):
    """The choice of the target."""

    provider: Annotated[str | None, Meta(description="The provider that served; null: none did.")]
    model: Annotated[str | None, Meta(description="The provider's name of the model.")]
    experiment: Annotated[str | None, Meta(description="The experiment that assigned the variant or arm.")]
    variant: Annotated[str | None, Meta(description="The variant or arm that it was assigned to.")]
    share: Annotated[float | None, Meta(description="The arm's share of those that take part.")]
    not_enrolled: Annotated[str | None, Meta(description="Why it does not count in the experiment; null: it does, or there is none.")]
    failed_attempts: Annotated[int, Meta(description="How many attempts failed before.")]
    candidates: Annotated[int | None, Meta(description="How many endpoints could have served; null: not recorded, or hidden.")]


class EndEvidence(Struct, frozen=True, kw_only=True):
    """The end of the request."""

    outcome: Annotated[Outcome, Meta(description="How it ended.")]
    status: Annotated[int, Meta(description="What the caller got.")]
    error: Annotated[str | None, Meta(description="The kind of the error.")]


class RefusalEvidence(Struct, frozen=True, kw_only=True):
    """The refusal."""

    status: Annotated[int, Meta(description="What the caller got.")]
    error: Annotated[str, Meta(description="The kind of the error.")]
    rule: Annotated[str | None, Meta(description="The limit that refused; null: it was none.")]
    param: Annotated[str | None, Meta(description="The field at fault.")]


class LatencyReason(Struct, frozen=True, kw_only=True, tag="latency", tag_field="about"):
    """The reason why it took so long."""

    sentence: Sentence
    salient: Salient
    evidence: LatencyEvidence


class CostReason(Struct, frozen=True, kw_only=True, tag="cost", tag_field="about"):
    """The reason for its price."""

    sentence: Sentence
    salient: Salient
    evidence: CostEvidence


class RouteReason(Struct, frozen=True, kw_only=True, tag="route", tag_field="about"):
    """The reason why it was sent there."""

    sentence: Sentence
    salient: Salient
    evidence: RouteEvidence


class EndReason(Struct, frozen=True, kw_only=True, tag="end", tag_field="about"):
    """The reason why it was not answered."""

    sentence: Sentence
    salient: Salient
    evidence: EndEvidence


class RefusalReason(Struct, frozen=True, kw_only=True, tag="refusal", tag_field="about"):
    """The reason why it was refused."""

    sentence: Sentence
    salient: Salient
    evidence: RefusalEvidence


Reason = LatencyReason | CostReason | RouteReason | EndReason
