"""Finding: one thing that a diagnosis of an installation reports."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Severity = Literal["error", "warning", "ok"]


class Finding(Struct, frozen=True):
    """A finding of the doctor, with `advice` on what to do.

    An `error` does not work, or will lose something. A `warning` works, but may not for long.
    """

    area: Annotated[str, Meta(description="The part that was checked, such as gateway, postgres or engines.")]
    severity: Annotated[Severity, Meta(description="error: it does not work. warning: it may not for long. ok: all is well.")]
    message: Annotated[str, Meta(description="What was found, as a sentence.")]
    advice: Annotated[str | None, Meta(description="What to do about it.")] = None
