"""Stored credentials: /admin/v1/credentials and /admin/v1/credentials/{name}. Values are write-only."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from app.api.rest.command import Command, Option
from app.api.rest.operation import Answer, Call, NoBody, NoQuery, Operation
from app.api.rest.replacement import check_read_only, replacement_type
from app.store.configuration.history import read_configuration_version
from app.store.postgres.paging import After, Limit
from app.store.postgres.vault import NoEncryptionKey, Vault
from app.store.teams import credentials
from app.store.teams.credentials import CredentialPage, CredentialRow
from providers.canonical.errors import InvalidRequest, UnknownRecord, Unsupported
from providers.credentials import CredentialError


class Secret(Struct, frozen=True, forbid_unknown_fields=True):
    """A secret to store."""

    value: Annotated[
        str | UnsetType,
        Meta(description="The secret itself. It is encrypted before it is stored, and never shown again. Left out: what is stored stays."),
    ] = UNSET

    def __repr__(self) -> str:
        return "Secret(...)"


_Replacement = replacement_type(Secret, CredentialRow)


class CredentialQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 100
    after: After | None = None
    sort: Literal["name"] = "name"


class StoredCredential(CredentialRow, frozen=True):
    """A credential that was stored. `version`: of the configuration that has it."""

    version: int


class DeletedCredential(Struct, frozen=True):
    """A credential that was deleted. `version`: of the configuration without it."""

    name: str
    version: int
    deleted: Literal[True] = True


class CredentialOperations:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def list(self, call: Call[CredentialQuery, NoBody]) -> Answer:
        return Answer(await credentials.page_credentials(call.connection, self._vault, call.query))

    async def show(self, call: Call[NoQuery, NoBody]) -> Answer:
        return Answer(await self._find(call))

    async def put(self, call: Call[NoQuery, Secret]) -> Answer:
        name, value = call.path["name"], call.body.value
        before = await credentials.find_credential(call.connection, self._vault, name)
        current = {"name": name} if before is None else msgspec.to_builtins(before)
        check_read_only(call.body, Secret, current, exists=before is not None)
        if value is UNSET:
            if before is None or before.key is None:
                raise InvalidRequest("`value` is missing: nothing is stored under this name yet.", param="value")
            version = await read_configuration_version(call.connection)
            return Answer(StoredCredential(**msgspec.structs.asdict(before), version=version))
        try:
            version = await credentials.set_credential(call.connection, self._vault, name, value, author=call.author)
        except NoEncryptionKey as fault:
            raise Unsupported(str(fault)) from None
        except CredentialError as fault:
            raise InvalidRequest(str(fault)) from None
        row = await self._find(call)
        return Answer(StoredCredential(row.name, row.key, row.updated_at, row.decryptable, row.providers, version))

    async def delete(self, call: Call[NoQuery, NoBody]) -> Answer:
        version = await credentials.delete_credential(call.connection, call.path["name"], author=call.author)
        if version is None:
            raise _not_found()
        named = await credentials.find_credential(call.connection, self._vault, call.path["name"])
        warnings = [f"Requests to {', '.join(named.providers)} fail until another is stored."] if named else []
        return Answer(DeletedCredential(call.path["name"], version), warnings=warnings)

    async def _find(self, call: Call[Any, Any]) -> CredentialRow:
        row = await credentials.find_credential(call.connection, self._vault, call.path["name"])
        if row is None:
            raise _not_found()
        return row


def _not_found() -> UnknownRecord:
    # The name is not repeated: the caller may have put the secret there.
    return UnknownRecord("Nothing is stored under that name. GET /admin/v1/credentials lists the stored ones.")


_LIST = Command(
    summary="List stored credentials by name; their values are never shown.",
    help='"key": the id of the key that encrypts it, null if a provider names it but nothing is stored; "decryptable": whether the keys'
    ' that this command found decrypt it; "newest_key_id": the id of the key that encrypts new credentials.',
    examples=("credentials list",),
    options={"limit": Option(default="1000")},
    data="credentials",
    render="access.credentials",
)
_SET = Command(
    name="credentials set",
    summary="Store a secret under NAME, or replace it.",
    help="The secret is read from standard input, or from a prompt on a terminal; never from the command line, which others may see."
    " Returns once every gateway process uses it; no request fails because of the change.",
    examples=("credentials set openai", "credentials set vertex < service-account.json"),
    options={"value": Option(is_secret=True, help="Secret for {name}")},
    done="{name} is stored, with version {version}; {applied}",
)
_DELETE = Command(
    summary="Delete the credential stored under NAME.",
    help="Requests to providers that name it fail (502) until another is stored.",
    examples=("credentials delete old-key --yes",),
    preview="access.warnings",
    confirm="Delete {name}?",
    done="{name} is deleted, with version {version}; {applied}",
)


def operations(vault: Vault) -> list[Operation[Any, Any]]:
    tag = "Credentials"
    handlers = CredentialOperations(vault)
    name_missing = {404: "No credential is stored under that name."}
    return [
        Operation(
            method="GET",
            path="/credentials",
            id="list_credentials",
            tag=tag,
            summary="List credentials, without their values",
            description="Also those that a provider names and nobody has stored: their `key` is null.",
            permission="config:read",
            query=CredentialQuery,
            response=CredentialPage,
            commands=(_LIST,),
            handler=handlers.list,
        ),
        Operation(
            method="GET",
            path="/credentials/{name}",
            id="get_credential",
            tag=tag,
            summary="Show a credential, without its value",
            permission="config:read",
            response=CredentialRow,
            errors={404: "No credential is stored under that name, and no provider names it."},
            handler=handlers.show,
        ),
        Operation(
            method="PUT",
            path="/credentials/{name}",
            id="put_credential",
            tag=tag,
            summary="Store or replace a credential",
            description="Providers use it as `store:NAME`. It takes no If-Match: nobody can edit what cannot be read.",
            permission="credentials:write",
            access="write",
            body=_Replacement,
            response=StoredCredential,
            errors={422: "The gateway has no NARTHEX_SECRET_KEY to encrypt it with."},
            example={"value": "sk-example"},
            commands=(_SET,),
            handler=handlers.put,
        ),
        Operation(
            method="DELETE",
            path="/credentials/{name}",
            id="delete_credential",
            tag=tag,
            summary="Delete a credential",
            description="Requests to providers that name it fail until another is stored.",
            permission="credentials:write",
            access="write",
            response=DeletedCredential,
            errors=name_missing,
            commands=(_DELETE,),
            handler=handlers.delete,
        ),
    ]
