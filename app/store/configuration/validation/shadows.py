"""Shadows of functions and models: their validation, and the limits that they imply."""

from collections.abc import Collection, Iterator

from app.domain.errors import BadConfiguration
from app.domain.limits import Limit
from app.domain.routing import ShadowConfig
from app.domain.snapshot import Snapshot
from app.process.plain_numbers import plain_number
from app.store.configuration.validation.experiments import check_has_targets
from app.store.configuration.validation.paths import limit_path

_MAX_CONCURRENT = 1_000
_MAX_PER_MINUTE = 1_000_000
_MAX_USD_PER_DAY = 1_000_000


def shadows_of(snapshot: Snapshot) -> Iterator[tuple[str, str, ShadowConfig]]:
    """Yields the path of each shadow, the function or model that has it, and the shadow."""
    for name, model in snapshot.models.items():
        if model.shadow is not None:
            yield f"models.{name}.shadow", name, model.shadow
    for name, function in snapshot.functions.items():
        if function.shadow is not None:
            yield f"functions.{name}.shadow", name, function.shadow


def find_shadow(snapshot: Snapshot, name: str) -> ShadowConfig | None:
    """Returns the shadow of a function or model, or None if it has none or does not exist."""
    config = snapshot.functions.get(name) or snapshot.models.get(name)
    return None if config is None else config.shadow


def shadow_limits(snapshot: Snapshot) -> Iterator[Limit]:
    """Yields the bounds of shadows, as limits that only they match.

    While Redis is away there are no shadows: no share of a bound is exact.
    """
    for _, name, shadow in shadows_of(snapshot):
        scope = {"shadow": name}
        yield Limit(f"shadow/{name}/max_concurrent", scope, "concurrency", shadow.max_concurrent, on_outage="refuse")
        yield Limit(f"shadow/{name}/per_minute", scope, "requests", shadow.per_minute, "minute", on_outage="refuse")
        if shadow.usd_per_day is not None:
            yield Limit(f"shadow/{name}/usd_per_day", scope, "cost_usd", shadow.usd_per_day, "day", on_outage="refuse")


def check_shadows(wanted: Snapshot) -> None:
    """Raises BadConfiguration for the first error. See check_shadow_teams(), too."""
    for path, name, shadow in shadows_of(wanted):
        if path.startswith("models."):
            _check_model(path, name, shadow, wanted)
        else:
            _check_variant(path, name, shadow, wanted)
        if not 0 <= shadow.share <= 1:
            raise BadConfiguration(f"{path}.share: the share of requests is a number from 0 to 1, not {shadow.share:g}.")
        if not 1 <= shadow.max_concurrent <= _MAX_CONCURRENT:
            raise BadConfiguration(f"{path}.max_concurrent: 1 to {_MAX_CONCURRENT} shadows at once, not {shadow.max_concurrent}.")
        if not 1 <= shadow.per_minute <= _MAX_PER_MINUTE:
            raise BadConfiguration(f"{path}.per_minute: 1 to {_MAX_PER_MINUTE} shadows in a minute, not {shadow.per_minute}.")
        if shadow.usd_per_day is not None and not 0.000001 <= shadow.usd_per_day <= _MAX_USD_PER_DAY:
            raise BadConfiguration(
                f"{path}.usd_per_day: US dollars from 0.000001 to {_MAX_USD_PER_DAY}, not {plain_number(shadow.usd_per_day)}."
            )
    taken = {limit.name for limit in wanted.limits}
    for limit in shadow_limits(wanted):
        if limit.name in taken:
            raise BadConfiguration(f"{limit_path(limit.name)}: this is the name of a bound of a shadow. Rename the limit.")


def check_shadow_teams(wanted: Snapshot, teams: Collection[str]) -> None:
    """Raises BadConfiguration for a shadow of a team that does not exist."""
    for path, _, shadow in shadows_of(wanted):
        if shadow.team not in teams:
            how = "`[teams.NAME]` in the file creates one, or its first key (`narthex keys create --team NAME`)"
            raise BadConfiguration(f"{path}.team: there is no team {shadow.team!r:.100}, which is to pay: {how}.")


def _check_model(path: str, name: str, shadow: ShadowConfig, wanted: Snapshot) -> None:
    if shadow.to not in wanted.models:
        raise BadConfiguration(f"{path}.to: there is no model {shadow.to!r:.100}.")
    if shadow.to == name:
        raise BadConfiguration(f"{path}.to: the model itself answers already. Name another model.")
    check_has_targets(f"{path}.to", shadow.to, wanted.models)
    _check_serves(path, shadow.to, wanted)


def _check_variant(path: str, name: str, shadow: ShadowConfig, wanted: Snapshot) -> None:
    function = wanted.functions[name]
    if shadow.to not in function.variants:
        raise BadConfiguration(f"{path}.to: {shadow.to!r:.100} is not one of its variants: {', '.join(sorted(function.variants))}.")
    if function.experiment is None and shadow.to == (function.default or next(iter(function.variants))):
        raise BadConfiguration(f"{path}.to: the variant {shadow.to!r:.100} answers every request already. Name another one.")
    _check_serves(path, function.variants[shadow.to].model, wanted)


def _check_serves(path: str, model: str, wanted: Snapshot) -> None:
    """Raises BadConfiguration for a model that none of its own targets serves: every shadow would fail."""
    if all(target.weight == 0 for target in wanted.models[model].targets):
        raise BadConfiguration(
            f"{path}.to: the targets of the model {model!r:.100} all have weight 0, and a shadow tries no fallbacks: nothing would answer."
        )
