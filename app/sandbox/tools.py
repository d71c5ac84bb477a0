"""Tools: which ones an answer calls. How their arguments come about is the walk's business."""

import re
from dataclasses import dataclass
from random import Random

from app.sandbox.constraint import ConstraintSource
from app.sandbox.errors import InvalidRequest
from app.sandbox.request_schema import ChatBody, Function, NamedTool

MAX_CALLS = 4


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A tool that may be called, and the constraint that its arguments obey."""

    name: str
    arguments: ConstraintSource


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """What may be called and how many calls there will be: `wanted` are the tools that fit the message, `at_least` what is demanded."""

    tools: tuple[CallableTool, ...] = ()
    matching: tuple[CallableTool, ...] = ()
    min_calls: int = 0
    exact_calls: int | None = None
    is_parallel: bool = True
    is_named: bool = False

    def choose_calls(self, rng: Random) -> list[CallableTool]:
        """The tools to call, in order. None means: answer in words."""
        if not self.tools:
            return []
        if self.exact_calls is not None:
            source = self.matching or self.tools
            return [source[at % len(source)] for at in range(self.exact_calls)]
        picked = list(self.matching[:MAX_CALLS])
        if len(picked) < self.min_calls:
            picked = [rng.choice(self.tools)]
        return picked if self.is_parallel else picked[:1]


def read_tools(body: ChatBody, user_text: str, *, is_answering_tools: bool) -> ToolPlan:
    """auto calls the tools whose name shares a word with the user's last message, and answers in words once tools have answered.

    That is dull and predictable on purpose: an agent's loop ends, and whoever needs a call whatever is said has `required`.
    """
    choice = body.tool_choice or "auto"
    functions = [tool.function for tool in body.tools or ()]
    if isinstance(choice, NamedTool):
        functions = [function for function in functions if function.name == choice.function.name]
        if not functions:
            raise InvalidRequest(f"tool_choice: there is no tool named {choice.function.name!r} in tools", "tool_choice")
    elif choice == "required" and not functions:
        raise InvalidRequest("tool_choice: tools are required, and none are given", "tool_choice")
    elif choice == "none":
        functions = []
    tools = tuple(CallableTool(function.name, ConstraintSource("tools", "json", parameters_of(function))) for function in functions)
    is_named = isinstance(choice, NamedTool)
    user_words = set(re.findall(r"[^\W_]{3,}", user_text.lower()))
    matching = () if is_answering_tools else tuple(offer for offer in tools if user_words & set(split_name(offer.name)))
    return ToolPlan(
        tools=tools,
        matching=tools if is_named else matching,
        min_calls=1 if is_named or choice == "required" else 0,
        exact_calls=body.sandbox.calls if body.sandbox else None,
        is_parallel=body.parallel_tool_calls is not False,
        is_named=is_named,
    )


def parameters_of(function: Function) -> object:
    """Arguments are an object, even where the schema forgets to say so or nothing is said about them."""
    if function.parameters is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    return {"type": "object", **function.parameters}


def split_name(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}|[^\W_a-zA-Z]{3,}", name) if len(word) >= 3]
