"""Token: an access token of Google, with the time until which it is valid."""

from providers.credentials.secret_record import SecretRecord


class Token(SecretRecord, frozen=True):
    """An access token."""

    secret: str
    expires_s: float  # monotonic seconds
    lifetime_s: float  # from its receipt until then
    quota_project: str | None = None  # the project that pays for a user's requests; None: the credential's own
