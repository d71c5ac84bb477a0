"""An engine that is not identified yet: anything with OpenAI's dialects, until probing shows what it is."""

from collections.abc import Mapping
from typing import ClassVar

from providers.adapters.lora import AdapterNaming
from providers.adapters.openai_compatible import OpenAICompatible
from providers.adapters.options import TEAM_CACHES_OPTION
from providers.canonical.errors import Unreachable
from providers.canonical.output_format import output_kind
from providers.engines.auto.lora import refuse_unknown_engine
from providers.structured_output import Constraint, ConstraintPlan
from providers.structured_output.write_constraint_fields import display_name


class Auto(OpenAICompatible):
    """Whatever engines do in different ways is Unreachable, so that another target is tried, or the caller tries again."""

    name: ClassVar[str] = "auto"
    is_self_hosted: bool = True
    default_base_url: ClassVar[str | None] = None
    known_options: ClassVar[Mapping[str, str]] = {**OpenAICompatible.known_options, "team_caches": TEAM_CACHES_OPTION}  # once identified
    lora_naming: ClassVar[AdapterNaming | None] = staticmethod(refuse_unknown_engine)

    @property
    def enforces_strict_tools(self) -> bool:
        return self.trusted

    def plan_constraint(self, constraint: Constraint, dialect: str, *, in_own_fields: bool) -> ConstraintPlan | None:
        """Raises Unreachable for a constraint that OpenAI has no field for: whether the engine has one is not known yet."""
        output = constraint.output
        if output is not None and output_kind(output) not in self.constraint_support:
            raise Unreachable(
                f"Whether {self.configured_as} supports a {display_name(output)} is not known yet: it has not reported what engine it is."
            )
        return super().plan_constraint(constraint, dialect, in_own_fields=in_own_fields)
