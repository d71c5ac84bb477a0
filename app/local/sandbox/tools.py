"""Tools: which ones an answer calls. How their arguments come about is the walk's business."""

import re
from dataclasses import dataclass
from random import Random

from app.local.sandbox.bodies import ChatBody, Function, NamedTool
from app.local.sandbox.constraint import Recipe
from app.local.sandbox.errors import Malformed

MOST_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool that may be called, and the constraint that its arguments obey."""

    name: str
    arguments: Recipe


@dataclass(frozen=True, slots=True)
class Toolbox:
    """What may be called and how many calls there will be: `wanted` are the tools that fit the message, `at_least` what is demanded."""

    offers: tuple[Offer, ...] = ()
    wanted: tuple[Offer, ...] = ()
    at_least: int = 0
    exactly: int | None = None
    is_parallel: bool = True
    is_named: bool = False

    def picked(self, rng: Random) -> list[Offer]:
        """The tools to call, in order. None means: answer in words."""
        if not self.offers:
            return []
        if self.exactly is not None:
            source = self.wanted or self.offers
            return [source[at % len(source)] for at in range(self.exactly)]
        picked = list(self.wanted[:MOST_AT_ONCE])
        if len(picked) < self.at_least:
            picked = [rng.choice(self.offers)]
        return picked if self.is_parallel else picked[:1]


def read_tools(body: ChatBody, heard: str, *, is_answering_tools: bool) -> Toolbox:
    """auto calls the tools whose name shares a word with the user's last message, and answers in words once tools have answered.

    That is dull and predictable on purpose: an agent's loop ends, and whoever needs a call whatever is said has `required`.
    """
    choice = body.tool_choice or "auto"
    functions = [tool.function for tool in body.tools or ()]
    if isinstance(choice, NamedTool):
        functions = [function for function in functions if function.name == choice.function.name]
        if not functions:
            raise Malformed(f"tool_choice: there is no tool named {choice.function.name!r} in tools", "tool_choice")
    elif choice == "required" and not functions:
        raise Malformed("tool_choice: tools are required, and none are given", "tool_choice")
    elif choice == "none":
        functions = []
    offers = tuple(Offer(function.name, Recipe("tools", "json", parameters_of(function))) for function in functions)
    is_named = isinstance(choice, NamedTool)
    said = set(re.findall(r"[^\W_]{3,}", heard.lower()))
    fitting = () if is_answering_tools else tuple(offer for offer in offers if said & set(words_of(offer.name)))
    return Toolbox(
        offers=offers,
        wanted=offers if is_named else fitting,
        at_least=1 if is_named or choice == "required" else 0,
        exactly=body.sandbox.calls if body.sandbox else None,
        is_parallel=body.parallel_tool_calls is not False,
        is_named=is_named,
    )


def parameters_of(function: Function) -> object:
    """Arguments are an object, even where the schema forgets to say so or nothing is said about them."""
    if function.parameters is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    return {"type": "object", **function.parameters}


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}|[^\W_a-zA-Z]{3,}", name) if len(word) >= 3]
