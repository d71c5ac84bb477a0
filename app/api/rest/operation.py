"""Operations of the admin API, as declared: the routes and the OpenAPI document are both made from these declarations."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from app.api.rest.command import Command
from app.api.rest.etags import check_match
from app.store.access.roles import Permission, Principal
from app.store.postgres.audit_log import Author
from providers.canonical.errors import NotAllowed

Q = TypeVar("Q")
B = TypeVar("B")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
# memory: the operation needs no Postgres, unless it opens a connection itself. read: a read-only transaction. write: one transaction with
# the change, its audit events and the response to repeat for an Idempotency-Key; it takes `dry_run`.
Access = Literal["memory", "read", "write"]
# company: the permission must be for the whole company. team: the handler checks the teams by Call.require() or Call.visible_teams().
Scope = Literal["company", "team"]

MAX_BODY_BYTES = 1024 * 1024


class NoQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """No query parameters."""


class NoBody(Struct, frozen=True, forbid_unknown_fields=True):
    """No request body."""


class Answer(Struct, frozen=True):
    """The result of a handler.

    `body` is encoded by msgspec, except for bytes, which are sent as they are, and an async generator of
    bytes, which is streamed. If the generator raises, the connection is closed, so that nobody takes the part
    for the whole. `etag` is the resource's, as etag_of() makes it. `status` and `media_type` None mean the
    operation's own. `warnings` are about probable mistakes. A dry run reports them, and commands those
    of a text; any other answer contains them only if `body` does.
    """

    body: Any
    etag: str | None = None
    status: int | None = None
    headers: Mapping[str, str] = {}
    warnings: Sequence[str] = ()
    media_type: str | None = None


class NotConsulted(AssertionError):
    """A handler of a team's resources that did not check whose they are: a bug, found before it answers."""


@dataclass(slots=True)
class Call(Generic[Q, B]):
    """One request of an operation, checked and decoded."""

    principal: Principal
    author: Author
    permission: Permission | None
    path: Mapping[str, str]  # the segments in braces, decoded
    query: Q
    body: B
    if_match: str | None
    raw_connection: AsyncConnection | None
    read_transaction: Callable[[], AbstractAsyncContextManager[AsyncConnection]]  # opens a transaction, for an operation on memory
    write_transaction: Callable[[], AbstractAsyncContextManager[AsyncConnection]]  # the same, for its audit events
    # For an answer that lasts. It raises what authentication raises, and NotAllowed once the permission is gone.
    authenticate_again: Callable[[], Awaitable[Principal]]
    last_event_id: str | None  # the header of a client that goes on with a stream of events
    # Closes the client's connection, so that a response that has begun does not look complete. None: there is no connection.
    break_off: Callable[[], None] | None
    teams_checked: bool = field(default=False)
    teams_by_permission: dict[Permission, frozenset[str] | None] = field(default_factory=dict[Permission, frozenset[str] | None])
    required: set[tuple[Permission, str | None]] = field(default_factory=set[tuple[Permission, str | None]])

    @property
    def connection(self) -> AsyncConnection:
        """The connection of the operation's transaction."""
        assert self.raw_connection is not None, "an operation on memory has no transaction"
        return self.raw_connection

    def visible_teams(self, permission: Permission | None = None) -> frozenset[str] | None:
        """The teams whose resources the principal may see or change; None: all, and what belongs to no team."""
        self.teams_checked = True
        asked_for = permission or self.permission
        assert asked_for is not None, "an operation for everybody must say which permission it means"
        if asked_for not in self.teams_by_permission:  # handlers ask for each entry of a list
            self.teams_by_permission[asked_for] = self.principal.teams_with(asked_for)
        return self.teams_by_permission[asked_for]

    async def renew_access(self) -> None:
        """Take over the roles in force now, in an answer that lasts. Raises what authentication raises, and NotAllowed."""
        self.principal = await self.authenticate_again()
        self.teams_by_permission.clear()

    async def check_access(self) -> None:
        """Take over the roles in force now. Raises as renew_access() does, and NotAllowed if they permit less of what was asked for."""
        earlier = dict(self.teams_by_permission)
        await self.renew_access()
        for permission, team in tuple(self.required):
            self.require(permission, team)
        for permission, teams in earlier.items():
            now = self.visible_teams(permission)
            if now is not None and (teams is None or not teams <= now):
                raise NotAllowed(f"Meanwhile your roles include {permission!r} in fewer teams.")

    def is_visible(self, team: str | None, permission: Permission | None = None) -> bool:
        teams = self.visible_teams(permission)
        return teams is None or team in teams

    def require(self, permission: Permission, team: str | None = None) -> None:
        """Raises NotAllowed without the permission for the company or, with `team`, at least for that team."""
        self.teams_checked = True
        self.required.add((permission, team))
        if not self.principal.may(permission, team):
            of_team = "" if team is None else f" in team {team!r:.100}"
            raise NotAllowed(f"Your role does not include {permission!r}{of_team}.")

    def check_match(self, current_etag: str | None) -> None:
        """Compare If-Match with the state in force, which must be locked. Where `current_etag` is None, the resource does not exist.

        Raises PreconditionRequired without the header, PreconditionFailed if it names another state.
        """
        check_match(self.if_match, current_etag)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[Q, B]):
    """A method of a path below /admin/v1."""

    method: Method
    path: str
    id: str  # the OpenAPI operationId, in snake_case, from which generated clients name their functions
    tag: str
    summary: str
    permission: Permission | None  # None: whoever is authenticated may use it
    handler: Callable[[Call[Q, B]], Awaitable[Answer]]
    description: str = ""
    scope: Scope = "company"
    access: Access = "read"
    # a Struct that is decoded from the query
    query: type[Q] = NoQuery  # pyright: ignore[reportAssignmentType]
    # a Struct that is decoded from the body; bytes are passed as they came, in `body_media_type`
    body: type[B] = NoBody  # pyright: ignore[reportAssignmentType]
    body_is_optional: bool = False
    body_media_type: str = "application/json"
    max_body_bytes: int = MAX_BODY_BYTES
    response: Any = None  # what the handler's Answer has
    response_media_type: str = "application/json"
    other_media_types: Sequence[str] = ()  # of responses, by the query
    status: int = 200
    conditional: bool = False  # whether it calls check_match(), and so takes If-Match
    secret_response: bool = False  # whether the response shows a secret once
    errors: Mapping[int, str] = field(default_factory=dict[int, str])  # statuses beyond the usual ones, with what they mean
    example: Mapping[str, Any] | None = None  # of a body
    timeout_s: float = 10.0  # of its statements
    one_moment: bool = False  # whether all statements of a read see the same moment
    commands: Sequence[Command] = (Command(),)  # those of the command line
    # The route that callers have for the same: a caller's key that may use that route may use the operation, too. Empty: every key may.
    # None: no caller's key may.
    caller_route: str | None = None

    @property
    def only_creates(self) -> bool:
        """Whether it leaves alone what there is already."""
        return self.method == "POST" and self.status == 201 and "{" not in self.path
