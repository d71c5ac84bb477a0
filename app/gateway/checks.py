"""Checks of constraints: whether one can be obeyed at all, before any engine works; and whether a reply has obeyed it."""

from providers import guided
from providers.dialect import Ask
from providers.guided import Constraint, Output


class Checks:
    """One for each worker. What was found of a constraint is remembered by its bytes."""

    async def constraint(self, ask: Ask) -> Constraint | None:
        """What constrains the answer to an ask; None: nothing. Raises Malformed for what nothing could obey, with its place."""
        places = guided.PLACES.get(ask.dialect)
        if places is None or (places.isdisjoint(ask.body) and "tools" not in ask.body):
            return None
        return guided.read_constraint(ask.dialect, ask.body)

    async def fault(self, output: Output, text: str, *, whole: bool) -> str | None:
        """Why a text is not what the output says, as a sentence; None: it is. `whole` False: it was cut off, and may be a beginning."""
        return None
