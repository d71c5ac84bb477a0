"""Types of what a record says of each attempt and charge, for the document of the API: what was not recorded is left out."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from app.domain.exchange import ChargeBasis


class RecordedCandidate(Struct, frozen=True, kw_only=True):
    """An endpoint that the attempt could have gone to; the least `score` is tried first."""

    number: Annotated[int, Meta(description="Its place among the target's endpoints.")]
    endpoint: Annotated[str, Meta(description="Its address.")]
    score: Annotated[int, Meta(description="In tokens: what it would have to read, and what it is busy with.")]
    cached_tokens: Annotated[int, Meta(description="Estimated tokens of the prompt that it holds already.")]
    load_tokens: Annotated[int, Meta(description="Estimated tokens that it is busy with.")]
    unavailable: Annotated[str | None, Meta(description="Why it came last; null: it did not.")] = None


class RecordedAttempt(Struct, frozen=True, kw_only=True):
    """One try at one endpoint. Times are in microseconds."""

    provider: Annotated[str, Meta(description="The provider of the target.")]
    model: Annotated[str, Meta(description="The provider's name of the model.")]
    endpoint: Annotated[str, Meta(description="The address that was tried; empty: none was, and `error` says why.")]
    started_us: Annotated[int, Meta(description="When it began, since the request arrived.")]
    duration_us: Annotated[int, Meta(description="How long it took; of the one that served until its response began.")]
    status: Annotated[int | UnsetType | None, Meta(description="The engine's status; null: no response came.")] = UNSET
    error: Annotated[str | UnsetType | None, Meta(description="What went wrong; null: it served.")] = UNSET
    message: Annotated[str | UnsetType | None, Meta(description="What the engine said about it.")] = UNSET
    code: Annotated[str | UnsetType | None, Meta(description="The host's own code of its error.")] = UNSET
    request_id: Annotated[str | UnsetType | None, Meta(description="The host's id of the request.")] = UNSET
    first_token_us: Annotated[int | UnsetType | None, Meta(description="When the first token came, since the request arrived.")] = UNSET
    input_tokens: Annotated[int | UnsetType, Meta(description="Input tokens that are charged for it.")] = UNSET
    output_tokens: Annotated[int | UnsetType, Meta(description="Output tokens that are charged for it.")] = UNSET
    cost_microusd: Annotated[int | UnsetType | None, Meta(description="Its cost; null: no price is known.")] = UNSET
    candidates: Annotated[
        Sequence[RecordedCandidate] | UnsetType | None, Meta(description="The endpoints it chose from, if the caller asked for them.")
    ] = UNSET
    resumed_at: Annotated[
        int | UnsetType | None, Meta(description="After how many characters it went on with the stream before; null: it did not.")
    ] = UNSET


class UsageDetails(Struct, frozen=True, kw_only=True):
    """Usage beside the tokens of the record; what a host did not report is left out."""

    cache_written: Annotated[int | UnsetType, Meta(description="Input tokens that were written into a cache.")] = UNSET
    cache_written_hour: Annotated[int | UnsetType, Meta(description="Of these, those that are kept for an hour.")] = UNSET
    cache_written_12_hours: Annotated[int | UnsetType, Meta(description="Of these, those that are kept for twelve hours.")] = UNSET
    audio_input: Annotated[int | UnsetType, Meta(description="Input tokens of sound.")] = UNSET
    audio_output: Annotated[int | UnsetType, Meta(description="Output tokens of sound.")] = UNSET
    image_input: Annotated[int | UnsetType, Meta(description="Input tokens of images.")] = UNSET
    tier: Annotated[str | UnsetType, Meta(description="The way it was served, where that has its own price.")] = UNSET
    region: Annotated[str | UnsetType, Meta(description="Where it was served, where that has its own price.")] = UNSET
    billed_input: Annotated[int | UnsetType, Meta(description="Input tokens that the host bills, where these are others.")] = UNSET
    billed_output: Annotated[int | UnsetType, Meta(description="Output tokens that the host bills, where these are others.")] = UNSET
    requests: Annotated[int | UnsetType, Meta(description="How many requests these are the sums of.")] = UNSET
    tool_uses: Annotated[Mapping[str, int] | UnsetType, Meta(description="How often each tool of the host was used.")] = UNSET


class ChargedUsage(UsageDetails, frozen=True, kw_only=True):
    """The usage that a charge is of."""

    input: Annotated[int | UnsetType, Meta(description="Input tokens, parts included.")] = UNSET
    output: Annotated[int | UnsetType, Meta(description="Output tokens, parts included.")] = UNSET
    cached: Annotated[int | UnsetType, Meta(description="Input tokens that came from a cache.")] = UNSET
    reasoning: Annotated[int | UnsetType, Meta(description="Output tokens of reasoning.")] = UNSET
    estimated: Annotated[bool | UnsetType, Meta(description="The gateway counted, as the host reported nothing.")] = UNSET
    host_cost_microusd: Annotated[int | UnsetType, Meta(description="What the host itself says that it cost.")] = UNSET
    iterations: Annotated[Sequence[Any] | UnsetType, Meta(description="The usage by runs of the model, where several are billed.")] = UNSET


class RecordedCharge(Struct, frozen=True, kw_only=True):
    """The charge for one attempt, with what is needed to price it again."""

    provider: Annotated[str, Meta(description="The provider of the target.")]
    model: Annotated[str, Meta(description="The provider's name of the model.")]
    usage: Annotated[ChargedUsage, Meta(description="What is charged.")]
    basis: Annotated[ChargeBasis, Meta(description="How certain the usage is.")]
    cost_microusd: Annotated[int | UnsetType, Meta(description="Its cost; left out: no price is known.")] = UNSET
    price: Annotated[str | UnsetType, Meta(description="The price used, by its path below /admin/v1/prices/.")] = UNSET
    reported_model: Annotated[str | UnsetType, Meta(description="The model that the host named.")] = UNSET
    duration_us: Annotated[int | UnsetType, Meta(description="How long the attempt took, until the end of its response.")] = UNSET
    continues: Annotated[bool | UnsetType, Meta(description="Another part of the same response, which the host bills by itself.")] = UNSET
