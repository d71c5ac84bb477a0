"""Teams of a file: their names, and what they restrict."""

from collections.abc import Mapping

from app.domain.callers import TeamConfig
from app.domain.errors import BadConfiguration, InvalidKeyField
from app.store.configuration.validation.team_restrictions import check_restrictions
from app.store.configuration.validation.validate import check_drop
from app.store.keys.mask_rules import check_mask
from app.store.postgres.names import check_priority, check_team


def check_teams(teams: Mapping[str, TeamConfig]) -> None:
    for name, team in teams.items():
        try:
            check_team(name)
            check_priority(team.priority)
            check_mask(team.mask)
            check_restrictions(team)
        except InvalidKeyField as fault:
            raise BadConfiguration(f"teams.{name!r:.60}: {fault}") from None
        check_drop(f"teams.{name}.drop", team.drop)
