"""An engine of which it is not said which it is: what probing finds it to be; until then anything that speaks OpenAI's dialect."""

from typing import ClassVar

from providers import guided
from providers.errors import Unreachable
from providers.guided import Constraint, Guiding
from providers.provider import Provider


class Auto(Provider):
    name: ClassVar[str] = "auto"
    default_base_url: ClassVar[str | None] = None

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        """Raises Unreachable for what OpenAI has no word for: whether the engine has one is not known yet."""
        output = constraint.output
        if output is not None and guided.kind_of(output) not in self.guided:
            raise Unreachable(
                f"How {self.configured_as} is asked for a {guided.titled(output)} is not known yet: it has not told what engine it is."
            )
        return super().guiding(constraint, dialect, as_said=as_said)
