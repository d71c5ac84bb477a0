"""xAI: Responses is its API, and chat its legacy one; what a model does not take is refused by each model in its own way."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from providers.errors import CredentialRefused, Missing, Refused, UpstreamError
from providers.guided import Constraint, Guiding
from providers.hosted.promises import as_promised
from providers.hosted.rowed import Rowed
from providers.losses import Losses
from providers.provider import Bent
from providers.tools import bend_strict
from providers.wire import Body

# Answered with 400 by models that reason: https://docs.x.ai/docs/guides/reasoning, read 2026-11 (/reference/providers.md part 2).
_REASONS = re.compile(r"grok-(?:3-mini|[4-9]|code|build)(?!.*non-reasoning)")
_NOT_OF_REASONING: Mapping[str, tuple[Any, ...]] = {"stop": ([],), "presence_penalty": (0,), "frequency_penalty": (0,)}
# "Model ... does not support parameter reasoningEffort": all before 4.3 but grok-3-mini and the one of several agents.
_NO_EFFORT = re.compile(r"grok-(?:2|3(?!-mini)|code|4(?:$|-)|4\.20(?!-multi-agent))")

# What its messages say, whose codes tell less: recorded, xai/19-error-400-a and xai/20-error-400-b.
_KEY, _MODEL = "Incorrect API key", "Model not found"
# With 403 and the code of a credential's: UKGovernmentBEIS/inspect_ai#2267, theopenco/llmgateway#1785, read 2026-11.
_UNSAFE = "violates usage guidelines"


class XAI(Rowed, row="xai"):
    guided_in = frozenset({"openai_chat", "openai_responses"})

    def guiding(self, constraint: Constraint, dialect: str, *, as_said: bool) -> Guiding | None:
        return as_promised(super().guiding(constraint, dialect, as_said=as_said), constraint, vouched=self.vouched)

    def bend(self, body: Body, dialect: str, may_drop: Callable[[str], bool], constraint: Constraint | None = None) -> Bent:
        losses = Losses(self, body, may_drop)
        _hold(body, dialect, losses)
        bend_strict(losses, constraint, vouched=self.vouched)
        bent = super().bend(body, dialect, may_drop, constraint)
        bent.dropped[:0] = losses.dropped
        return bent

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> UpstreamError:
        error = super().read_error(status, headers, body)
        told = _retold(status, error)
        told.said_code = error.said_code
        return told


def _hold(body: Body, dialect: str, losses: Losses) -> None:
    model = body.value("model")
    if not isinstance(model, str):
        return
    if dialect == "openai_chat" and _REASONS.match(model):
        losses.leave_out(_NOT_OF_REASONING)
        for field in [field for field in _NOT_OF_REASONING if body.said(field)]:
            losses.without(field, f"its model {model} reasons, and takes none.")
    if not _NO_EFFORT.match(model):
        return
    if dialect == "openai_chat" and body.said("reasoning_effort"):
        losses.without("reasoning_effort", f"how much its model {model} reasons cannot be said.")
    elif dialect == "openai_responses" and body.said("reasoning"):
        said = body.value("reasoning")
        if said.get("effort") is not None:
            losses.part_with("reasoning.effort", f"how much its model {model} reasons cannot be said.")
            body["reasoning"] = {key: value for key, value in said.items() if key != "effort"}


def _retold(status: int, error: UpstreamError) -> UpstreamError:
    if status == 400 and _KEY in error.message:
        return CredentialRefused(f"The host refused the gateway's own credential: {error.message}", told=status, reason=error.message)
    if status == 400 and _MODEL in error.message:
        return Missing(error.message, told=status, param="model")
    if status == 403 and isinstance(error, CredentialRefused) and _UNSAFE in error.reason:
        return Refused(error.reason, told=status)
    return error
