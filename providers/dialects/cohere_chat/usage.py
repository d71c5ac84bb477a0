"""Token counts of Cohere's chat.

Source: https://docs.cohere.com/reference/chat, read 2026-11; recordings of cohere.
"""

from providers.canonical.chat import Usage
from providers.canonical.token_counts import is_uncounted, plausible_count
from providers.dialects.cohere_chat.response_schema import Counts, UsageReport


def read_usage(report: UsageReport | None) -> Usage | None:
    """The processed tokens, and the billed ones beside them; None if none were reported.

    `tokens` also counts those that Cohere adds and those that models write unseen, which are not billed. `cached_tokens` and
    `reasoning_tokens` are parts of `tokens`. Where only the billed tokens are reported, they are the usage.
    Source: https://docs.cohere.com/docs/how-does-cohere-pricing-work, read 2026-11.
    """
    if report is None or (report.billed_units is None and report.tokens is None):
        return None
    billed, processed = report.billed_units or Counts(), report.tokens or Counts()
    billed_input, billed_output = plausible_count(billed.input_tokens), plausible_count(billed.output_tokens)
    input, output = plausible_count(processed.input_tokens), plausible_count(processed.output_tokens)
    usage = Usage(
        input=billed_input if input is None else input,
        output=billed_output if output is None else output,
        cached=_part(report.cached_tokens, input),
        reasoning=_part(processed.reasoning_tokens, output),
        billed_input=None if input is None else billed_input,
        billed_output=None if output is None else billed_output,
    )
    return None if is_uncounted(usage) else usage


def _part(count: float | None, total: int | None) -> int | None:
    """A part of the processed tokens, at most all of them. None if it or its total is not reported."""
    part = plausible_count(count)
    return None if part is None or total is None else min(part, total)
