"""Google: bearer tokens for what a credential is, kept until shortly before they expire, and renewed once for all who wait."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import msgspec

from providers.credentials.google_chain import find_token
from providers.credentials.google_grants import Token, read_grant
from providers.credentials.references import CredentialError, check_usable
from providers.credentials.signing import Fetch, Header, UnsignedRequest

log = logging.getLogger(__name__)

CHAIN = "google:default"

FetchToken = Callable[[], Awaitable[Token]]

# Before a token expires: it is not used any more; and another is asked for, while requests still go with it.
_EXPIRY_MARGIN_S = 60.0
_RENEW_AHEAD_S = 300.0
# After one that could not be renewed ahead, before it is tried again.
_RETRY_PAUSE_S = 10.0
# Many may hear at once that a token is refused: what the first of them got anew is not thrown away by the others.
_MIN_TOKEN_AGE_S = 5.0


def signer(secret: str, fetch: Fetch) -> "RenewedToken | StaticToken":
    """For a service account's or a user's JSON, google:default, or a token. Raises NoCredential for what is none of these."""
    if secret == CHAIN:
        return RenewedToken(lambda: find_token(fetch))
    if secret.startswith("{"):
        grant = read_grant(secret)
        return RenewedToken(lambda: grant(fetch))
    if secret.startswith("AIza"):
        raise CredentialError(
            "This is an API key of Google's, which Vertex does not take: it takes OAuth tokens. The adapter gemini takes keys."
        )
    return StaticToken(check_usable(secret, "the credential"))


def read_project(secret: str | None) -> str | None:
    """The project that a service account is of, as its file says it."""
    if secret is None or not secret.startswith("{"):
        return None
    try:
        return _account.decode(secret).project_id or None
    except msgspec.MsgspecError:
        return None


class _Account(msgspec.Struct):
    project_id: str = ""


_account = msgspec.json.Decoder(_Account)


class StaticToken:
    """A token that somebody else renews, where it is kept. See Signer."""

    def __init__(self, token: str) -> None:
        self._headers: list[Header] = [(b"authorization", b"Bearer " + token.encode("ascii"))]

    async def sign(self, request: UnsignedRequest) -> list[Header]:
        return self._headers

    def invalidate(self) -> bool:
        return False


class RenewedToken:
    """Tokens that `renew` gets. See Signer. `clock`: monotonic seconds, by which tokens tell when they expire."""

    def __init__(self, fetch_token: FetchToken, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetch_token = fetch_token
        self._clock = clock
        self._token: Token | None = None
        self._fetched_at_s = 0.0
        self._not_before_s = 0.0
        self._renewal_task: asyncio.Task[Token] | None = None

    async def sign(self, request: UnsignedRequest) -> list[Header]:
        token = self._token
        remaining_s = 0.0 if token is None else token.expires_s - self._clock()
        if token is None or remaining_s < min(_EXPIRY_MARGIN_S, token.lifetime_s / 4):
            # Shielded: one who hangs up while all wait must not take it from the others.
            token = await asyncio.shield(self._renewal())
        elif remaining_s < min(_RENEW_AHEAD_S, token.lifetime_s / 2) and self._clock() >= self._not_before_s:
            self._renewal()
        bearer: Header = (b"authorization", b"Bearer " + token.secret.encode("ascii"))
        return [bearer] if token.quota_project is None else [bearer, (b"x-goog-user-project", token.quota_project.encode("ascii"))]

    def invalidate(self) -> bool:
        if self._token is not None and self._clock() - self._fetched_at_s >= _MIN_TOKEN_AGE_S:
            self._token = None
        return True

    def _renewal(self) -> asyncio.Task[Token]:
        if self._renewal_task is None:
            self._renewal_task = asyncio.create_task(self._renew_once())
            self._renewal_task.add_done_callback(self._on_renewed)
        return self._renewal_task

    async def _renew_once(self) -> Token:
        return await self._fetch_token()

    def _on_renewed(self, task: asyncio.Task[Token]) -> None:
        self._renewal_task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._token, self._fetched_at_s = task.result(), self._clock()
        else:
            self._not_before_s = self._clock() + _RETRY_PAUSE_S
            log.warning("no new token of Google's", extra={"fault": str(error) if isinstance(error, CredentialError) else repr(error)})
