"""An engine of which it is not said which it is: what probing finds it to be; until then anything that speaks OpenAI's dialect."""

from typing import ClassVar

from providers import structured_output
from providers.adapters.provider import Provider
from providers.canonical.errors import Unreachable
from providers.structured_output import Constraint, ConstraintPlan


class Auto(Provider):
    name: ClassVar[str] = "auto"
    default_base_url: ClassVar[str | None] = None

    def plan_constraint(self, constraint: Constraint, dialect: str, *, as_said: bool) -> ConstraintPlan | None:
        """Raises Unreachable for what OpenAI has no word for: whether the engine has one is not known yet."""
        output = constraint.output
        if output is not None and structured_output.output_kind(output) not in self.constraint_support:
            raise Unreachable(
                f"How {self.configured_as} is asked for a {structured_output.display_name(output)} is not known yet: it has not told what engine it is."
            )
        return super().plan_constraint(constraint, dialect, as_said=as_said)
