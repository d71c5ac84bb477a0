"""Cooldown: for how long a credential is left for last. Of one model, where the host has no room for that; of all, where it was refused.

Hosts limit each model by itself: https://platform.openai.com/docs/guides/rate-limits and https://docs.claude.com/en/api/rate-limits,
read 2026-11. So what is said of one says nothing of another.
"""

import time

import httpx

from providers.canonical.rate_limit_headers import RateLimits, read_rate_limits

# For a refused one: an operator may have mended it meanwhile.
_REFUSED_S = 60.0
# For one of which no token could be had.
_TOKEN_UNAVAILABLE_S = 10.0
# For one that was told to come later, and not when.
_OVERLOADED_S = 1.0
_MAX_COOLDOWN_S = 3600.0
_MAX_MODELS = 256


class _ModelCooldown:
    """Of one model. `told`: the headers of the host's last answer, and when they came; read when somebody wants to know."""

    def __init__(self) -> None:
        self.until = 0.0
        self.decided_at = 0.0
        self.unread_headers: tuple[httpx.Headers, float] | None = None
        self._rate_limits: RateLimits | None = None

    @property
    def rate_limits(self) -> RateLimits | None:
        if self.unread_headers is not None:
            headers, received_at = self.unread_headers
            at_s = time.time() - (time.monotonic() - received_at)
            self._rate_limits, self.unread_headers = read_rate_limits(headers.raw, received_at, at_s) or self._rate_limits, None
        return self._rate_limits

    def in_cooldown(self, now: float) -> bool:
        rate_limits = self.rate_limits
        return self.until > now or (rate_limits is not None and rate_limits.exhausted_until > now)


class Cooldown:
    """Of one credential. Moments are by the monotonic clock. `refused`: it was not accepted, when last asked with."""

    def __init__(self) -> None:
        self.refused = False
        self.until = 0.0
        self._decided_at = 0.0
        self._model_cooldowns: dict[str, _ModelCooldown] = {}

    def in_cooldown(self, now: float, model: str) -> bool:
        model_cooldown = self._model_cooldowns.get(model)
        return self.until > now or (model_cooldown is not None and model_cooldown.in_cooldown(now))

    @property
    def models(self) -> dict[str, tuple[float, RateLimits | None]]:
        """Of those that something was heard of: until when it rests, and what the host said last of how much it lets through."""
        return {model: (model_cooldown.until, model_cooldown.rate_limits) for model, model_cooldown in self._model_cooldowns.items()}

    def record_headers(self, model: str, headers: httpx.Headers) -> None:
        """An answer's headers, which may tell how much more the host lets through."""
        self._model_cooldown(model).unread_headers = headers, time.monotonic()

    def record_model_overload(self, model: str, retry_after_s: float | None) -> None:
        """It was told that there is no room for this model now."""
        model_cooldown = self._model_cooldown(model)
        model_cooldown.decided_at = time.monotonic()
        model_cooldown.until = model_cooldown.decided_at + min(_OVERLOADED_S if retry_after_s is None else retry_after_s, _MAX_COOLDOWN_S)

    def record_quota_exhausted(self, retry_after_s: float | None) -> None:
        """Nothing is left of what was paid for."""
        self._cool_down(_REFUSED_S if retry_after_s is None else retry_after_s)

    def record_token_unavailable(self) -> None:
        """No token could be had for it."""
        self._cool_down(_TOKEN_UNAVAILABLE_S)

    def record_refusal(self) -> None:
        """It was not accepted."""
        self.refused = True
        self._cool_down(_REFUSED_S)

    def record_success(self, model: str, requested_at: float) -> None:
        """It served a request of that moment, which says nothing of what another was told later."""
        if requested_at >= self._decided_at:
            self.refused, self.until = False, 0.0
        model_cooldown = self._model_cooldowns.get(model)
        if model_cooldown is not None and requested_at >= model_cooldown.decided_at:
            model_cooldown.until = 0.0

    def reset(self) -> None:
        """It is another credential."""
        self.refused, self.until = False, 0.0
        self._model_cooldowns.clear()

    def _cool_down(self, wait_s: float) -> None:
        self._decided_at = time.monotonic()
        self.until = self._decided_at + min(wait_s, _MAX_COOLDOWN_S)

    def _model_cooldown(self, model: str) -> _ModelCooldown:
        model_cooldown = self._model_cooldowns.get(model)
        if model_cooldown is None:
            if len(self._model_cooldowns) >= _MAX_MODELS:
                self._model_cooldowns.clear()
            model_cooldown = self._model_cooldowns[model] = _ModelCooldown()
        return model_cooldown
