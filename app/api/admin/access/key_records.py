"""Records of keys: how they are sent to /admin/v1/keys and shown by it, with their usage."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from app.api.admin.access.teams import TeamName
from app.api.rest.fields import Warnings
from app.api.rest.operation import Call
from app.api.rest.request_parsing import TimeText
from app.domain.callers import MAX_PRIORITY, Content, DroppableFields, Priority
from app.domain.limits import Limit
from app.store.postgres.names import MAX_NAME_CHARACTERS
from app.store.postgres.paging import After
from app.store.postgres.paging import Limit as PageLimit
from app.store.teams.key_limits import MAX_NEW_LIMITS, Budget, KeyLimit
from app.store.teams.shown_keys import KeyRow, KeyState
from app.store.usage.key_usage import read_key_usage


class Key(KeyRow, frozen=True, kw_only=True):
    """A key, without its secret. `prefix` is its public part. A restriction that is null does not apply.

    `drop` does not include what the team's `drop` adds. `priority` is null if the team's applies.
    `replaced_by` is the key that it was rotated to. `limits` are those that count only this key and the keys
    that it replaces. `counts_as` is the first of those keys, which limits count it as, or null if it replaces
    none.
    """

    state: KeyState
    limits: Sequence[Limit]


class KeyUsage(Struct, frozen=True, kw_only=True):
    """The usage of a key: requests that were recorded, and what they cost."""

    since: Annotated[str, Meta(description="The beginning of the time of these sums: of an hour.")]
    last_used_at: Annotated[str | None, Meta(description="The hour of its newest request, whenever that was; null: none is recorded.")]
    requests: Annotated[int, Meta(description="Recorded requests; those that were refused before they reached a model are none.")]
    failed: Annotated[int, Meta(description="Requests whose caller got an error.")]
    cost_microusd: Annotated[int, Meta(description="Of the requests whose cost is known.")]
    unpriced: Annotated[int, Meta(description="How many requests have no known cost.")]


class ListedKey(Key, frozen=True, kw_only=True):
    """A key, without its secret, with its usage if that was requested."""

    usage: Annotated[KeyUsage | None, Meta(description="Null: not requested by `usage_days`, or your roles do not include `records:read`.")]


class CreatedKey(Key, frozen=True, kw_only=True):
    """A new key. `key`: the key itself, which is shown only here."""

    key: str
    warnings: Warnings | UnsetType = UNSET


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """A key to create. `models`, `routes`, `networks`: what it may be used for and from where; left out: everything.

    `content`: also sets how much of the team's requests and responses is recorded. `limits`, `budget`: of this key alone, whose `model` is
    one that it may use.
    """

    team: TeamName
    name: str = ""
    admin: bool = False
    content: Content | None = None
    models: Sequence[str] | None = None
    routes: Sequence[str] | None = None
    networks: Sequence[str] | None = None
    expires_at: datetime | None = None
    drop: DroppableFields | None = None
    priority: Annotated[Priority, Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] | None = None
    limits: Annotated[Sequence[KeyLimit], Meta(max_length=MAX_NEW_LIMITS)] = ()
    budget: Budget | None = None


class Rotation(Struct, frozen=True, forbid_unknown_fields=True):
    """The rotation of a key. `overlap_s` is how long the old key keeps working."""

    overlap_s: float


class KeyQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: PageLimit = 100
    after: After | None = None
    sort: Literal["created_at", "-created_at", "name", "-name", "team", "-team", "prefix", "-prefix"] = "created_at"
    team: Annotated[str, Meta(description="Only of this team.")] | None = None
    admin: bool | None = None
    state: KeyState | None = None
    search: Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS, description="Text in the name or public part, in any case.")] | None = None
    expires_before: TimeText | None = None
    usage_days: Annotated[int, Meta(ge=1, le=400, description="Also what each key used in so many days, and its last use.")] | None = None
    unused_since: Annotated[TimeText, Meta(description="Only keys that were there then and have made no request since.")] | None = None


def to_key(row: KeyRow, limits: Sequence[Limit]) -> Key:
    is_expired = row.expires_at is not None and datetime.fromisoformat(row.expires_at) <= datetime.now(UTC)
    fields = msgspec.structs.asdict(row)
    fields |= {"prefix": f"nx-{row.prefix}", "replaced_by": row.replaced_by and f"nx-{row.replaced_by}"}
    fields["counts_as"] = row.counts_as and f"nx-{row.counts_as}"
    return Key(**fields, state="revoked" if row.revoked_at else "expired" if is_expired else "valid", limits=limits)


async def read_usage(call: Call[Any, Any], rows: Sequence[KeyRow], days: int) -> dict[str, KeyUsage]:
    """The usage of the keys whose records the caller may see, by id."""
    ids = [row.id for row in rows if call.is_visible(row.team, "records:read")]
    since = (datetime.now(UTC) - timedelta(days=days)).replace(minute=0, second=0, microsecond=0)
    found = await read_key_usage(call.connection, ids, since)
    return {
        id: KeyUsage(
            since=since.isoformat(),
            last_used_at=used.last_used and used.last_used.isoformat(),
            requests=used.requests,
            failed=used.failed,
            cost_microusd=used.cost_microusd,
            unpriced=used.unpriced,
        )
        for id, used in found.items()
    }
