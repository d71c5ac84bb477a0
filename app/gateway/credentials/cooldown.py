"""Cooldown: how long a credential is tried last: for one model where the host has no capacity for it, for all where it was refused.

Hosts limit each model by itself: https://platform.openai.com/docs/guides/rate-limits and https://docs.claude.com/en/api/rate-limits,
read 2026-11. So a limit on one model says nothing about another.
"""

import time

import httpx2

from providers.canonical.rate_limit_headers import RateLimits, read_rate_limits

# After a refusal; an operator may replace the credential meanwhile.
_REFUSED_S = 60.0
# After a token could not be fetched.
_TOKEN_UNAVAILABLE_S = 10.0
# After a 429 without Retry-After.
_OVERLOADED_S = 1.0
_MAX_COOLDOWN_S = 3600.0
_MAX_MODELS = 256


class _ModelCooldown:
    """The cooldown for one model."""

    def __init__(self) -> None:
        self.until = 0.0
        self.decided_at = 0.0
        # of the host's last response, with the time it came; parsed only when needed
        self.unread_headers: tuple[httpx2.Headers, float] | None = None
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
    """The cooldown of one credential. Times are by the monotonic clock."""

    def __init__(self) -> None:
        self.refused = False  # whether the host refused it when it was last used
        self.until = 0.0
        self._decided_at = 0.0
        self._model_cooldowns: dict[str, _ModelCooldown] = {}

    def in_cooldown(self, now: float, model: str) -> bool:
        model_cooldown = self._model_cooldowns.get(model)
        return self.until > now or (model_cooldown is not None and model_cooldown.in_cooldown(now))

    @property
    def models(self) -> dict[str, tuple[float, RateLimits | None]]:
        """The end of each model's cooldown, and the rate limits that the host reported last, None if it reported none."""
        return {model: (model_cooldown.until, model_cooldown.rate_limits) for model, model_cooldown in self._model_cooldowns.items()}

    def record_headers(self, model: str, headers: httpx2.Headers) -> None:
        """Keeps a response's headers, which may report the rate limits that are left."""
        self._model_cooldown(model).unread_headers = headers, time.monotonic()

    def record_model_overload(self, model: str, retry_after_s: float | None) -> None:
        """The host has no capacity for this model now (429)."""
        model_cooldown = self._model_cooldown(model)
        model_cooldown.decided_at = time.monotonic()
        model_cooldown.until = model_cooldown.decided_at + min(_OVERLOADED_S if retry_after_s is None else retry_after_s, _MAX_COOLDOWN_S)

    def record_quota_exhausted(self, retry_after_s: float | None) -> None:
        """The account has no credit or quota left."""
        self._cool_down(_REFUSED_S if retry_after_s is None else retry_after_s)

    def record_token_unavailable(self) -> None:
        """No token could be fetched for it."""
        self._cool_down(_TOKEN_UNAVAILABLE_S)

    def record_refusal(self) -> None:
        """The host refused it (401, 403)."""
        self.refused = True
        self._cool_down(_REFUSED_S)

    def record_success(self, model: str, requested_at: float) -> None:
        """It served a request sent at `requested_at`; a failure that was recorded later stands."""
        if requested_at >= self._decided_at:
            self.refused, self.until = False, 0.0
        model_cooldown = self._model_cooldowns.get(model)
        if model_cooldown is not None and requested_at >= model_cooldown.decided_at:
            model_cooldown.until = 0.0

    def reset(self) -> None:
        """Forgets everything: the secret was replaced."""
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
