"""The commands of keys and teams."""

from collections.abc import Mapping

from app.api.rest.command import Column, Command, Option
from app.domain.callers import TeamConfig

_DROP_HELP = (
    "A field that may be left out of its requests where a target cannot honour it; all: every such field, none: no field"
    " (docs/configuration.md). Can be repeated."
)
_EXPIRES_HELP = "When it expires: 30d, 12h, 2026-12-31 (still valid on that day, UTC) or 2026-12-31T18:00Z."
_PRIORITY_HELP = (
    "Where requests wait for a place at a model, those of the highest priority get it first (default: 0, or of a key its team's)."
)


def _terms(subject: str, *, are_changes: bool) -> Mapping[str, Option]:
    """The options of what a key, or all keys of a team, may be used for. `subject`: of whom the help speaks, such as "it"."""

    def restriction(field: str, help: str) -> Option:
        lifted = {f"--any-{field}": (None, f"Allow every {field}.")} if are_changes else {}
        return Option(flag=f"--{field}", help=f"{help} Can be repeated.", constants=lifted)

    return {
        "models": restriction("model", f"A model that {subject} may use; * at the end stands for anything."),
        "routes": restriction("route", f"A route that {subject} may use, such as /v1/chat/completions or /v1/*."),
        "networks": restriction("network", f"A network that {subject} may be used from, such as 10.0.0.0/8."),
        "drop": Option(metavar="FIELD", help=_DROP_HELP),
        "priority": Option(help=_PRIORITY_HELP),
    }


LIST_KEYS = Command(
    summary="List keys by their public part.",
    help='"next" is the value of --after for the keys that follow, null if there are none.',
    examples=("keys list", "keys list --team search --all", "keys list --unused-since 30d"),
    options={
        "limit": Option(default="1000", help="Maximum number of keys, the oldest first."),
        "admin": Option(help="Only keys for the admin API."),
        "state": Option(default="valid", help="Only keys in this state.", constants={"--all": (None, "Also revoked and expired keys.")}),
        "expires_before": Option(help="Only keys that expire before then."),
    },
    data="keys",
    render="callers.keys",
)
CREATE_KEY = Command(
    summary="Create a key. It is shown once and not stored.",
    help="Without --model, --route or --network it is valid for every model, on every route, from everywhere. --limits and --budget become"
    " limits of the configuration for this key alone.",
    examples=(
        "keys create --team search",
        'keys create --team search --name nightly --model "small-*" --expires 30d',
        "keys create --team search --quiet",
    ),
    options={
        "team": Option(help="The team that it stands for; created if it is new."),
        "name": Option(flag="--name", help="A description for people."),
        "admin": Option(flag="--admin/--no-admin", help="Create a key for the admin API."),
        "content": Option(help="Also set what is kept of the team's requests and responses."),
        **_terms("it", are_changes=False),
        "expires_at": Option(flag="--expires", help=_EXPIRES_HELP),
    },
    quiet="key",
    render="callers.created_key",
)
CHANGE_KEY = Command(
    summary="Change what the key whose public part is PREFIX may do.",
    help="Each option replaces the previous value; everything else stays.",
    examples=(
        'keys change nx-0123456789ab --model small-1 --model "embed-*"',
        "keys change nx-0123456789ab --any-model --expires 2026-12-31",
        "keys change nx-0123456789ab --drop logit_bias --drop seed",
    ),
    options={
        "name": Option(help="A description for people."),
        **_terms("it", are_changes=True),
        "priority": Option(help=_PRIORITY_HELP, constants={"--team-priority": (None, "Give it the priority of its team again.")}),
        "expires_at": Option(flag="--expires", help=_EXPIRES_HELP, constants={"--never-expires": (None, "Remove its expiry.")}),
    },
    done="Changed.",
    shape="callers.changed_key",
    json='{"changed": prefix, and each of "name", "models", "routes", "networks", "drop", "priority", "expires_at" that was given}',
)
REVOKE_KEY = Command(
    summary="Revoke the key whose public part is PREFIX.",
    help="PREFIX may also be the complete key. Returns once every gateway process refuses it, or says which do not yet. A revoked key"
    " cannot be restored.",
    examples=("keys revoke nx-0123456789ab",),
    confirm="Revoke {prefix} for good?",
    done="Revoked.",
    shape="callers.revoked_key",
    json='{"revoked": prefix}',
)
ROTATE_KEY = Command(
    summary="Replace the key whose public part is PREFIX with a new one.",
    help="The new key has the same permissions, and limits count both as one key. Both are valid during the overlap; then the old one"
    " expires.",
    examples=("keys rotate nx-0123456789ab", "keys rotate nx-0123456789ab --overlap 7d --quiet > new-key"),
    options={"overlap_s": Option(default="1h", help="How long the old key stays valid: 0s, 15m, 1h, 7d.")},
    quiet="key",
    render="callers.rotated_key",
    shape="callers.rotated_key_shape",
    json='{"key", "prefix", "replaces", "overlap_s"}',
)

LIST_TEAMS = Command(
    examples=("teams list",),
    options={"limit": Option(default="1000")},
    columns=(
        Column("name", "TEAM"),
        Column("content"),
        Column("keys", form="count"),
        Column("created_at", "CREATED", "time"),
        Column("priority"),
        Column("drop", "MAY DROP"),
        Column("search"),
    ),
    nothing="There are no teams yet; `narthex keys create --team NAME` creates one with its first key.",
    data="teams",
)
SET_TEAM = Command(
    name="teams set",
    summary="Set the options of team NAME; a new NAME creates a team.",
    help="Returns once every gateway process goes by it; what is not given stays. What its keys are held to (--model to --fallbacks) they"
    " narrow and cannot widen. docs/recording.md describes what each choice of --content keeps.",
    examples=(
        "teams set legal --content none",
        "teams set sales --content masked --mask-pattern 'employee_number=E[0-9]{6}'",
        "teams set support --search",
        "teams set search --drop logit_bias --drop seed",
        "teams set batch --priority -50",
        'teams set interns --model "small-*" --limit requests=100/minute --limit cost_usd=5/day --fallbacks allowed',
        "teams set interns --any-model --no-limits",
    ),
    options={
        "content": Option(
            help="What is kept of its requests and responses: everything, everything but what --mask and --mask-pattern find, only"
            " structure and numbers, or nothing."
        ),
        "mask.detectors": Option(
            flag="--mask", words={"all": None}, help="What --content masked finds by itself (default: all). Can be repeated."
        ),
        "mask.patterns": Option(
            flag="--mask-pattern",
            metavar="NAME=REGEX",
            help="What else it finds, as a regular expression of RE2, by the name that takes its place; NAME= removes it. Can be repeated.",
        ),
        **_terms("each of its keys", are_changes=True),
        "limits": Option(
            flag="--limit",
            metavar="RESOURCE=AMOUNT[/PERIOD]",
            parse="team_limits.parse_team_limit",
            help="The most that each of its keys may use: requests=100/minute, cost_usd=5/day, concurrency=4; with ,model=NAME only of"
            " requests for that model, and with ,time_zone=ZONE by the days there. These take the place of all that it has. Can be"
            " repeated.",
            constants={"--no-limits": (None, "Remove the limits of its keys.")},
        ),
    },
    inline=("mask",),
    creates=True,
    render="callers.set_team",
    only=("name", *TeamConfig.__struct_fields__),
)
