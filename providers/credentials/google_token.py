"""Token: an access token of Google, with the time until which it is valid."""

from providers.credentials.secret_record import SecretRecord


class Token(SecretRecord, frozen=True):
    """An access token. `expires_s`: monotonic seconds; `lifetime_s`: from its receipt until then.

    `quota_project`: the project that pays for a user's requests; None: the credential's own.
    """

    secret: str
    expires_s: float
    lifetime_s: float
    quota_project: str | None = None
