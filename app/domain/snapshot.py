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
    """The configuration at one moment."""

    version: int  # grows with each change
    hash: str  # of its content
    providers: Mapping[str, ProviderConfig]
    models: Mapping[str, ModelConfig]
    limits: tuple[Limit, ...] = ()
    prices: tuple[Price, ...] = ()
    credentials: Mapping[str, str] = {}  # stored credentials by name, encrypted (app/store/postgres/vault.py)
    # since when a limit, by name, has counted what it counts (Unix time in ms, by Postgres's clock); without an entry that is not known
    limits_since: Mapping[str, int] = {}
    nodes: tuple[Node, ...] = ()  # what operations made of it; not in the hash
    # endpoints without new requests, by provider and address, as operations made them; not in the hash
    drained: frozenset[tuple[str, str]] = frozenset()
    models_created: Mapping[str, int] = {}  # when a model or function was first configured, in Unix time
    overrides: tuple[LimitOverride, ...] = ()  # of limits, those that have not ended; not in the hash
    functions: Mapping[str, FunctionConfig] = {}
    metrics: Mapping[str, MetricConfig] = {}
    experiments: Mapping[str, Experiment] = {}  # those that run, by the function or model that has them; not in the hash
    read_ms: int = 0  # when Postgres had it as the newest, by its own clock; 0: not known
    shadow_teams: Mapping[str, str] = {}  # the ids of teams that own a shadow, by name; not in the hash
    counted_as: CountedAs = CountedAs()
    team_limits: Mapping[str, tuple[TeamLimit, ...]] = {}  # of each key of teams that have any; not in the hash


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
