"""Types of request fields that several dialects of OpenAI share."""

from typing import Annotated

from msgspec import Meta, Raw, Struct

Probability = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
PositiveInt = Annotated[int, Meta(ge=1)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
RawObject = dict[str, Raw]


class StreamOptions(Struct):
    include_usage: bool | None = None
