"""ResponseProgress: how far a response has come, for whoever records and charges a request that may end at any moment."""

import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from app.domain.exchange import ChargeBasis
from providers.canonical.chat import Usage
from providers.canonical.usage_sums import sum_usage
from providers.dialect import StreamEditor

# The least certain last.
_BASES: tuple[ChargeBasis, ...] = ("reported", "received", "reserved")


class Charge(Struct, frozen=True, gc=False):
    """The usage that is charged for a response, and how certain it is."""

    usage: Usage
    basis: ChargeBasis


class ResponseProgress:
    """The state of a response that is coming. `usage`, `finish_reason` and `model` are as the engine reported them; None: not reported."""

    __slots__ = ("_started_ns", "editor", "finish_reason", "first_token_us", "is_unvalidated", "model", "usage", "written_tokens")

    def __init__(self, started_ns: int) -> None:
        self._started_ns = started_ns
        self.model: str | None = None
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.written_tokens = 0  # an estimate of what came
        self.first_token_us: int | None = None  # microseconds after the request; None: none came
        self.editor: StreamEditor | None = None  # of a stream that has begun; it knows better than these
        self.is_unvalidated = False  # whether the response was to be validated, but could not be checked

    def begin_anew(self) -> "ResponseProgress":
        """That of another response to the same request."""
        return ResponseProgress(self._started_ns)

    def elapsed_us(self) -> int:
        """Microseconds since the request came."""
        return (time.perf_counter_ns() - self._started_ns) // 1000

    def restart(self) -> None:
        """Another attempt begins: what came of the one before is not part of the response."""
        self.usage, self.written_tokens, self.first_token_us, self.is_unvalidated, self.model = None, 0, None, False, None

    def mark_first_token(self) -> None:
        """Notes the time of the first byte; later calls change nothing."""
        if self.first_token_us is None:
            self.first_token_us = self.elapsed_us()

    def charge(self, estimated_input: int, reserved_output: int | None, *, is_cut: bool = False) -> Charge:
        """Returns the charge for the response as far as it came.

        An engine that was stopped has read the input. For `reserved_output` see charge_response(). `is_cut`
        says that the gateway itself ended the response, before the engine did.
        """
        usage, written_tokens = self.usage, self.written_tokens
        if self.editor is None:
            if usage is not None and usage.input is not None and usage.output is not None:  # as nearly always
                return Charge(usage, "reported")
        else:
            usage, written_tokens = self.editor.usage, self.editor.written_tokens
            if usage is not None and (is_cut or self.editor.finish_reason is None):
                # What is reported before the end is not all (Anthropic begins with 1), and after a disconnect no more comes.
                reported_tokens = usage.output or 0
                if reserved_output is not None or reported_tokens < written_tokens:
                    written_tokens = max(written_tokens, reported_tokens)
                    usage = replace(usage, output=None, billed_output=None, iterations=())
        return charge_response(usage, estimated_input, written_tokens, reserved_output)


def sum_charges(charges: Sequence[Charge]) -> Charge:
    """Returns the sum of at least one charge. It is as certain as the least certain of them."""
    return Charge(sum_usage([each.usage for each in charges]), least_certain([each.basis for each in charges]))


def least_certain(bases: Sequence[ChargeBasis]) -> ChargeBasis:
    return max(bases, key=_BASES.index)


def charge_response(usage: Usage | None, estimated_input: int, written_tokens: int, reserved_output: int | None = None) -> Charge:
    """Counts that the engine did not report (None) are estimated: the input as it was parsed, the output as it was relayed.

    `reserved_output` is the least output of a response that its host may have gone on writing after the gateway left. None means that the
    engine ended the response, or stopped.
    """
    if usage is None:
        usage = Usage()
    elif usage.input is not None and usage.output is not None:
        return Charge(usage, "reported")
    is_reserved = reserved_output is not None and usage.output is None
    output = max(written_tokens, reserved_output or 0) if usage.output is None else usage.output
    charged = replace(usage, input=estimated_input if usage.input is None else usage.input, output=output, iterations=())
    return Charge(charged, "reserved" if is_reserved else "received")
