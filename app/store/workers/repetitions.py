"""Repeated requests with an Idempotency-Key: the change is made once, and its response is sent again."""

import re
from collections.abc import Mapping

from msgspec import Struct
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.postgres import tables
from app.store.postgres.vault import Vault
from app.store.workers.reports import ServedVersions
from providers.canonical.errors import Conflict, IdempotencyKeyReused, InvalidRequest

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_KEPT_HOURS = 24
_MAX_BODY_BYTES = 256 * 1024
_CHANGE = " change"  # no header has such a name
_PENDING = 0  # the status of a request in progress; no other transaction ever sees it

_rows = tables.admin_idempotency


class StoredAnswer(Struct, frozen=True):
    """A response as it is sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes  # JSON
    change: ServedVersions  # the versions that it made


class Repetitions:
    """Responses to requests with an Idempotency-Key, kept to be repeated.

    `vault` encrypts responses that show a secret; one without keys keeps none of these.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def claim(self, connection: AsyncConnection, author: str, key: str, request_hash: bytes) -> StoredAnswer | None:
        """Claim a key in the caller's transaction. The earlier response if the request was served already; None: it must be served now.

        Waits for another transaction that serves the same request. Raises IdempotencyKeyReused for another request with the key,
        Conflict if the earlier response cannot be shown again.
        """
        if not _KEY.fullmatch(key):
            raise InvalidRequest("An Idempotency-Key has 1 to 255 visible ASCII characters.", param="Idempotency-Key")
        await connection.execute(delete(_rows).where(_rows.c.created_at < func.now() - text(f"interval '{_KEPT_HOURS} hours'")))
        row = insert(_rows).values(author=author, key=key, request_hash=request_hash, status=_PENDING, headers={})
        if (await connection.execute(row.on_conflict_do_nothing())).rowcount:
            return None
        earlier = (await connection.execute(select(_rows).where(_rows.c.author == author, _rows.c.key == key))).one()
        if bytes(earlier.request_hash) != request_hash:
            raise IdempotencyKeyReused("This Idempotency-Key was used for another request: use a new one for each change.")
        if earlier.body is None:
            raise Conflict(
                "This request was served already, and its response cannot be shown again: it had a secret, or was too large."
                " The change was made once."
            )
        encrypted = earlier.body.startswith("vault:")
        body = self._vault.decrypt(_vault_name(author, key), earlier.body.removeprefix("vault:")) if encrypted else earlier.body
        headers = {**earlier.headers, "idempotent-replayed": "true"}
        # What earlier versions of Narthex have stored has none.
        configuration, _, keys = headers.pop(_CHANGE, "0 0").partition(" ")
        return StoredAnswer(earlier.status, headers, body.encode(), ServedVersions(int(configuration), int(keys)))

    async def store(self, connection: AsyncConnection, author: str, key: str, answer: StoredAnswer, *, is_secret: bool) -> None:
        body: str | None = None
        if len(answer.body) <= _MAX_BODY_BYTES:
            body = answer.body.decode()
            if is_secret:
                can_encrypt = self._vault.newest_key_id is not None
                body = f"vault:{self._vault.encrypt(_vault_name(author, key), body)}" if can_encrypt else None
        headers = {**answer.headers, _CHANGE: f"{answer.change.configuration} {answer.change.keys}"}
        values = {"status": answer.status, "headers": headers, "body": body}
        await connection.execute(update(_rows).where(_rows.c.author == author, _rows.c.key == key).values(**values))


def _vault_name(author: str, key: str) -> str:
    return f"admin response {author} {key}"
