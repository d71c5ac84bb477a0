"""Timeouts of one attempt: those of its target, else of its model, else of the gateway."""

from collections.abc import Mapping

from msgspec import Struct

from app.domain.functions import VariantConfig
from app.domain.routing import ModelConfig, Target, TimeoutConfig
from app.settings import Settings


class AttemptTimeouts(Struct, frozen=True):
    """The timeouts of one attempt in seconds, as the transport takes them.

    `stream` is for a streamed response, `response` for one that comes as a whole. For `queue_s` see
    TimeoutConfig.
    """

    stream: Mapping[str, float]
    response: Mapping[str, float]
    queue_s: float


def read_timeouts(settings: Settings, *levels: TimeoutConfig | None) -> AttemptTimeouts:
    """The timeouts of an attempt. `levels` begin with the nearest.

    A value that none of them has is the gateway's, but never longer than the total.
    """

    def find(name: str, default: float) -> float:
        return next((value for level in levels if level is not None and (value := getattr(level, name)) is not None), default)

    total_s = find("total_s", settings.total_timeout_s)
    connect_s = min(find("connect_s", settings.connect_timeout_s), total_s)
    shared = {"connect": connect_s, "write": total_s, "pool": total_s, "total": total_s}
    first_s, silence_s = find("first_token_s", settings.first_token_timeout_s), find("silence_s", settings.silence_timeout_s)
    return AttemptTimeouts(
        {**shared, "first": min(first_s, total_s), "read": silence_s},
        # The first byte of a non-streaming response comes when the whole response is ready.
        {**shared, "first": total_s, "read": total_s},
        find("queue_s", settings.queue_wait_s),
    )


class Timeouts:
    """The timeouts of each target."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._default = read_timeouts(settings)

    def of(self, model: ModelConfig, target: Target, variant: VariantConfig | None = None) -> AttemptTimeouts:
        """The timeouts of a model at a target. A `variant` is that of a function, whose own come first."""
        if variant is not None and variant.timeouts is not None:
            return read_timeouts(self._settings, variant.timeouts, target.timeouts, model.timeouts)
        if model.timeouts is None and target.timeouts is None:  # as nearly always
            return self._default
        return read_timeouts(self._settings, target.timeouts, model.timeouts)
