"""A hosted provider with rules of its own, for all that it is asked in OpenAI's dialects."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from providers.chat import ChatRequest
from providers.dialect import Concessions
from providers.guided import Constraint
from providers.hosted.part_rules import without_parts
from providers.hosted.rules import Rules, hold
from providers.losses import Losses
from providers.provider import Bent, Provider
from providers.wire import Body


class Ruled(Provider):
    """A host says its rules as data; what is not data, its class does after them."""

    rules: ClassVar[Rules] = Rules()
    # Whether its streams tell usage only where they are asked to.
    asks_usage: ClassVar[bool] = True

    def __init__(
        self, configured_as: str, options: Mapping[str, Any], version: tuple[int, ...] | None = None, base_url: str | None = None
    ) -> None:
        """Raises BadOption."""
        super().__init__(configured_as, options, version, base_url)
        self.stream_usage = bool(options.get("stream_usage", self.asks_usage))

    def bend_chat(self, chat: ChatRequest, dialect: str, concessions: Concessions) -> ChatRequest:
        return without_parts(chat, self.rules.parts, concessions) if dialect == "openai_chat" else chat

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        losses = Losses(self, body, may_drop)
        hold(body, dialect, self.rules, self.refuses | self.hints, losses)
        bent = super().bend(body, dialect, may_drop, constraint)
        bent.dropped[:0] = losses.dropped
        return bent
