"""Token counts of Cohere's chat.

Source: https://docs.cohere.com/reference/chat, read 2026-11; recordings of cohere.
"""

from providers.canonical.chat import Usage
from providers.canonical.token_counts import plausible_count
from providers.dialects.cohere_chat.response_schema import Counts, UsageReport


def read_usage(report: UsageReport | None) -> Usage | None:
    """The billed tokens; None if none were reported.

    `tokens` also counts those that Cohere adds and those that models write unseen, which are not billed. `cached_tokens` counts all
    input, so that the cached share of the billed input is not known.
    Source: https://docs.cohere.com/docs/how-does-cohere-pricing-work, read 2026-11.
    """
    if report is None or (report.billed_units is None and report.tokens is None):
        return None
    billed, counted = report.billed_units or Counts(), report.tokens or Counts()
    output = plausible_count(counted.output_tokens if billed.output_tokens is None else billed.output_tokens)
    reasoning = plausible_count(counted.reasoning_tokens)
    return Usage(
        input=plausible_count(counted.input_tokens if billed.input_tokens is None else billed.input_tokens),
        output=output,
        reasoning=reasoning if reasoning is None or output is None else min(reasoning, output),
    )
