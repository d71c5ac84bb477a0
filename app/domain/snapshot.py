"""The configuration in force, and what is planned from it for a request."""

from collections.abc import Mapping

from msgspec import Struct

from app.domain.callers import TeamLimit
from app.domain.experiments import Assignment, Experiment, MetricConfig
from app.domain.functions import FunctionConfig
from app.domain.limits import CountedAs, Limit, LimitOverride
from app.domain.prices import Price
from app.domain.routing import ModelConfig, Node, ProviderConfig, Target


class Snapshot(Struct, frozen=True):
    """The configuration at one moment. `hash` is of its content; `version` grows with each change.

    `nodes`, and `drained` (endpoints without new requests, by provider and address), are what operations made of it, and not in the hash.
    `credentials`: stored credentials by name, encrypted (app/store/postgres/vault.py). `limits_since`: since when a limit, by name, has
    counted what it counts (Unix time in ms, by Postgres's clock); without an entry that is not known. `models_created`: when a model or
    function was first configured, in Unix time. `overrides`: of limits, those that have not ended; not in the hash. `experiments`: that
    run, by the function or model that has them; not in the hash. `shadow_teams`: the ids of teams that own a shadow, by name; not in the
    hash. `read_ms`: when Postgres had it as the newest, by its own clock; 0: not known. `team_limits`: of each key of teams that have
    any; not in the hash.
    """

    version: int
    hash: str
    providers: Mapping[str, ProviderConfig]
    models: Mapping[str, ModelConfig]
    limits: tuple[Limit, ...] = ()
    prices: tuple[Price, ...] = ()
    credentials: Mapping[str, str] = {}
    limits_since: Mapping[str, int] = {}
    nodes: tuple[Node, ...] = ()
    drained: frozenset[tuple[str, str]] = frozenset()
    models_created: Mapping[str, int] = {}
    overrides: tuple[LimitOverride, ...] = ()
    functions: Mapping[str, FunctionConfig] = {}
    metrics: Mapping[str, MetricConfig] = {}
    experiments: Mapping[str, Experiment] = {}
    read_ms: int = 0
    shadow_teams: Mapping[str, str] = {}
    counted_as: CountedAs = CountedAs()
    team_limits: Mapping[str, tuple[TeamLimit, ...]] = {}


class Plan(Struct, frozen=True):
    """The targets that are tried for one request, in order: those of the model, then those of its fallbacks.

    `model` is the name that the caller sent, `name` the configured model that it means, and `names[i]` the
    model of `targets[i]`. `function` is the function that the caller named instead, or None if it named a
    model. With a function, `variant` is the variant that was chosen, `name` is that variant's model, and
    `variants[i]` is the variant whose prompt `targets[i]` gets. These fields hold the same of the arms of a
    model's experiment, without `function`; `experiment_model` is then that model. Otherwise `variants` is
    empty. `assignment` is None if no experiment runs.
    """

    model: str
    name: str
    targets: tuple[Target, ...]
    names: tuple[str, ...]
    snapshot: Snapshot
    function: str | None = None
    variant: str | None = None
    variants: tuple[str, ...] = ()
    assignment: Assignment | None = None
    experiment_model: str | None = None
