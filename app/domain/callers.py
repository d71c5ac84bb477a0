"""Callers: teams, their keys as the request path knows them, and what of their content is kept."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from app.domain.limits import Period, Resource

# What is recorded of requests and responses: everything; everything but what the rules of MaskConfig find; only structure and numbers; or
# nothing.
ContentPolicy = Literal["full", "masked", "redacted", "none"]


# Of users and service accounts in the admin API, the strongest first; app/store/access/roles.py has what each permits.
Role = Literal["owner", "admin", "editor", "viewer", "auditor"]


# Fields that may be dropped where a target cannot honour them: all, or these, by the names that callers give them.
DroppableFields = Literal["all"] | tuple[str, ...]


Detector = Literal["email", "phone", "card", "iban", "ip_address", "secret"]


ALL_DETECTORS: tuple[Detector, ...] = get_args(Detector)


class MaskConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The setting `mask` of a team: what its content policy `masked` keeps out of the records.

    `detectors`: what is found by built-in rules. `patterns`: regular expressions of RE2, by the name that takes the place of a match.
    """

    detectors: tuple[Detector, ...] = ALL_DETECTORS
    patterns: Mapping[str, str] = {}


class Caller(Struct, frozen=True):
    """Whom a key stands for, and what it may do. None means no restriction."""

    key_id: str
    team_id: str
    team: str
    content: ContentPolicy
    admin: bool = False
    prefix: str = ""  # the key's public part, as `nx-` and twelve hex digits
    models: tuple[str, ...] | None = None  # what the key and its team permit, as in the next two; an entry may end in `*`
    routes: tuple[str, ...] | None = None  # an entry may end in `*`
    networks: tuple[str, ...] | None = None  # in CIDR notation
    expires_s: float | None = None  # Unix time at which the key expires
    drop: DroppableFields = ()  # what may be left out of its requests, by the choice of its team or of the key
    priority: int = 0  # from -100 to 100; where requests wait, the highest go first
    mask: MaskConfig = MaskConfig()  # its team's rules for content that is `masked`
    shadow: str | None = None  # whose shadow it is, a caller that no key stands for: it has the id NO_KEY, and no prefix
    counts_as: str = ""  # the prefix of the first of the keys that it replaces, as which limits count it; empty: its own
    fallbacks: "Fallbacks" = "any"  # its team's

    @property
    def counted_prefix(self) -> str:
        """The prefix under which what it spends is counted: the same for all keys that replace each other."""
        return self.counts_as or self.prefix


# The id of the key of requests that were sent with none.
NO_KEY = "00000000-0000-0000-0000-000000000000"


Fallbacks = Literal["any", "allowed"]


class TeamLimit(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The amount of a resource that each key of a team may use.

    If `model` is set, the limit is only of requests for this model.
    """

    resource: "Resource"
    amount: float
    per: "Period | None" = None
    model: str | None = None
    time_zone: str = "UTC"


# The priority of a request, of which the negative is the least.
MAX_PRIORITY = 100


MAX_TEAM_LIMITS = 20


Content = Annotated[
    ContentPolicy,
    Meta(
        description="What is recorded of requests and responses: everything, everything but what the rules of `mask` find, only structure"
        " and numbers, or nothing."
    ),
]


Priority = Annotated[
    int,
    Meta(
        description="Where requests wait, the highest go first.",
        extra_json_schema={"minimum": -MAX_PRIORITY, "maximum": MAX_PRIORITY},
    ),
]


class TeamConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, gc=False):
    """A team's settings: the section `[teams.NAME]`."""

    content: Content = "full"
    drop: Annotated[
        DroppableFields,
        Meta(description='Fields that may be left out of its requests where a target cannot honour them: "all", or a list of names.'),
    ] = ()
    priority: Priority = 0  # of keys without one of their own
    mask: Annotated[MaskConfig, Meta(description="The rules of the content policy `masked`; by default all built-in detectors.")] = (
        MaskConfig()
    )
    search: Annotated[bool, Meta(description="Whether the text of what is recorded from now on can be searched.")] = False
    # What its keys are held to, which a key can narrow but not widen. As in Caller, None means no restriction.
    models: Annotated[
        tuple[str, ...] | None,
        Meta(description="Models that its keys may use; a * at the end stands for anything. Keys narrow it."),
    ] = None
    routes: Annotated[tuple[str, ...] | None, Meta(description="Routes that its keys may use. Keys narrow it.")] = None
    networks: Annotated[tuple[str, ...] | None, Meta(description="Networks that its keys may be used from. Keys narrow it.")] = None
    limits: Annotated[
        tuple[TeamLimit, ...], Meta(description="What each of its keys is held to.", extra_json_schema={"maxItems": MAX_TEAM_LIMITS})
    ] = ()
    fallbacks: Annotated[
        Fallbacks, Meta(description="Whether a model may fall back to any model, or to those alone that the key may use (allowed).")
    ] = "any"
