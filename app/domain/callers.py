"""Callers: teams, their keys as the request path knows them, and what of their content is kept."""

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

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


class TeamRestrictions(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False, kw_only=True):
    """The restrictions that a team sets for its keys, which a key can narrow but not widen.

    `None` means no restriction, as in Caller. `limits` apply to each key separately. `fallbacks` says whether
    models may fall back to any model, or only to those that the key may use.
    """

    models: tuple[str, ...] | None = None
    routes: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    limits: tuple[TeamLimit, ...] = ()
    fallbacks: Fallbacks = "any"


class TeamConfig(TeamRestrictions, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A team's settings: the section `[teams.NAME]`. TeamRestrictions has further ones."""

    content: ContentPolicy = "full"  # how much of the team's requests and responses is recorded
    drop: DroppableFields = ()  # what may be left out of the team's requests and responses
    priority: int = 0  # of keys without one of their own; see Caller
    mask: MaskConfig = MaskConfig()  # the rules of the policy `masked`
    search: bool = False  # whether the text of what is recorded can be searched
