"""Stored credentials over HTTP, for admin keys: /admin/v1/credentials and /admin/v1/credentials/{name}. Values are write-only."""

from typing import Any

import msgspec
from litestar import Request, Response, Router, delete, get, put
from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncEngine

from app.api.rest.request_parsing import parse_admin_body, reject_unknown_parameters
from app.store import credentials
from app.store.credentials import CredentialRow
from app.store.vault import NoEncryptionKey, Vault
from providers.canonical.errors import InvalidRequest, UnknownRoute, Unsupported
from providers.credentials import CredentialError

_NO_STORE = {"cache-control": "no-store"}


class Secret(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of PUT."""

    value: str

    def __repr__(self) -> str:
        return "Secret(...)"


def routes(database: AsyncEngine, vault: Vault) -> Router:
    @get("/credentials")
    async def list_credentials(request: Request[Any, Any, Any]) -> dict[str, Any]:
        reject_unknown_parameters(request, ())
        rows = await credentials.list_credentials(database, vault)
        return {"data": [msgspec.structs.asdict(row) for row in rows], "newest_key_id": vault.newest_key_id}

    @get("/credentials/{name:str}")
    async def show_credential(name: str) -> dict[str, Any]:
        return msgspec.structs.asdict(await _find_row(name))

    @put("/credentials/{name:str}")
    async def set_credential(request: Request[Any, Any, Any], name: str) -> Response[dict[str, Any]]:
        body = parse_admin_body(await request.body(), Secret)
        try:
            version = await credentials.set_credential(database, vault, name, body.value)
        except NoEncryptionKey as fault:
            raise Unsupported(str(fault)) from None
        except CredentialError as fault:
            raise InvalidRequest(str(fault), param="value") from None
        return Response({**msgspec.structs.asdict(await _find_row(name)), "version": version}, headers=_NO_STORE)

    @delete("/credentials/{name:str}", status_code=200)
    async def delete_credential(name: str) -> dict[str, Any]:
        version = await credentials.delete_credential(database, name)
        if version is None:
            raise _not_found()
        return {"name": name, "deleted": True, "version": version}

    async def _find_row(name: str) -> CredentialRow:
        rows = await credentials.list_credentials(database, vault)
        matching = next((row for row in rows if row.name == name), None)
        if matching is None:
            raise _not_found()
        return matching

    return Router("/", route_handlers=[list_credentials, show_credential, set_credential, delete_credential])


def _not_found() -> UnknownRoute:
    # The name is not repeated: the caller may have put the secret there.
    return UnknownRoute("No credential is stored under that name. GET /admin/v1/credentials lists the stored ones.")
