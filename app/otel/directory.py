"""The exported names of what records name by ids or by the operator's own names."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from app.domain.exchange import Exchange
from app.otel import names


class Directory(Struct, frozen=True):
    """The names of teams by id, and of adapters by the configured name of a provider.

    Of what is not in it (yet), the record's own word is used.
    """

    teams: Mapping[str, str] = {}
    adapters: Mapping[str, str] = {}

    def names_all(self, exchanges: Iterable[Exchange]) -> bool:
        teams, adapters = self.teams, self.adapters
        return all([each.team_id in teams and (each.served_provider is None or each.served_provider in adapters) for each in exchanges])

    def provider_of(self, configured_name: str | None) -> str:
        """Returns the conventions' name for a provider, or Narthex itself if no provider was reached."""
        if configured_name is None:
            return names.SCOPE
        adapter = self.adapters.get(configured_name, configured_name)
        return names.PROVIDERS.get(adapter, adapter)
