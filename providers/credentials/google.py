"""Google credentials: signers that add a bearer token, which is renewed shortly before it expires, once for all requests."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

import msgspec

from providers.credentials import cloud_sdks
from providers.credentials.google_token import Token
from providers.credentials.references import CredentialError, check_usable
from providers.credentials.signing import Fetch, Header, UnsignedRequest

log = logging.getLogger(__name__)

CHAIN = "google:default"

FetchToken = Callable[[], Awaitable[Token]]

# Before a token expires: when it is no longer used, and when another is fetched while it is still used.
_EXPIRY_MARGIN_S = 60.0
_RENEW_AHEAD_S = 300.0
# After a failed renewal, before the next.
_RETRY_PAUSE_S = 10.0
# Many requests may learn at once that a token is refused: the later ones must not discard the new token of the first.
_MIN_TOKEN_AGE_S = 5.0


def signer(secret: str, fetch: Fetch) -> "RenewedToken | StaticToken":
    """The signer for a service account's or a user's JSON, google:default, or a token. Raises CredentialError for anything else."""
    if secret == CHAIN:
        find_token = cloud_sdks.google_chain().find_token
        return RenewedToken(lambda: find_token(fetch))
    if secret.startswith("{"):
        grant = cloud_sdks.google_grants().read_grant(secret)
        return RenewedToken(lambda: grant(fetch))
    if secret.startswith("AIza"):
        raise CredentialError("This is a Google API key. Vertex accepts OAuth tokens only; the adapter gemini accepts API keys.")
    return StaticToken(check_usable(secret, "the credential"))


def read_project(secret: str | None) -> str | None:
    """The project of a service account, from its JSON; None: another kind of credential, or none in it."""
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
    """A Signer with a fixed token, which the operator renews where it is stored."""

    def __init__(self, token: str) -> None:
        self._headers: list[Header] = [(b"authorization", b"Bearer " + token.encode("ascii"))]

    async def sign(self, request: UnsignedRequest) -> list[Header]:
        return self._headers

    def invalidate(self) -> bool:
        return False


class RenewedToken:
    """A Signer with tokens that `fetch_token` returns. `clock` gives monotonic seconds, as in Token.expires_s."""

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
            # Shielded: a cancelled request must not cancel the renewal for the others that wait.
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
            log.warning("cannot renew a Google token", extra={"fault": str(error) if isinstance(error, CredentialError) else repr(error)})
