"""Token counts of generate."""

from providers.canonical.chat import Usage
from providers.canonical.token_counts import is_uncounted, plausible_count
from providers.dialects.tgi_generate.response_schema import Details


def read_usage(details: Details) -> Usage | None:
    """Returns None if nothing was counted.

    Streams report the input length at their end. Complete responses report only its tokens one by one, and only on request.
    """
    input_tokens = details.input_length if details.input_length is not None else len(details.prefill or ()) or None
    usage = Usage(input=plausible_count(input_tokens), output=plausible_count(details.generated_tokens))
    return None if is_uncounted(usage) else usage
