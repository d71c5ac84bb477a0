"""Limits of a team's keys, as people type them."""

from typing import Any, get_args

import msgspec

from app.domain.callers import TeamLimit
from app.domain.limits import Period, Resource


def parse_team_limit(option: str) -> Any:
    """RESOURCE=AMOUNT[/PERIOD][,model=NAME][,time_zone=ZONE]. Raises ValueError."""
    counted, *more = option.split(",")
    resource, _, rest = counted.partition("=")
    amount, separator, period = rest.partition("/")
    fields: dict[str, Any] = {"resource": resource, "amount": amount, **({"per": period} if separator else {})}
    for each in more:
        name, _, value = each.partition("=")
        if name not in ("model", "time_zone") or not value or name in fields:
            raise ValueError(f"{each!r:.100} is not model=NAME or time_zone=ZONE, each once")
        fields[name] = value
    try:
        return msgspec.to_builtins(msgspec.convert(fields, TeamLimit, strict=False))
    except msgspec.ValidationError:
        raise ValueError(
            f"{option!r:.100} is not RESOURCE=AMOUNT/PERIOD, such as requests=100/minute; RESOURCE is one of"
            f" {', '.join(get_args(Resource))}, PERIOD one of {', '.join(get_args(Period))}"
        ) from None
