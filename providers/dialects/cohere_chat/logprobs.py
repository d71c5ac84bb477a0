"""Log probabilities of Cohere's chat as OpenAI's."""

from typing import Any

import msgspec
from msgspec import Raw

from providers.dialects.cohere_chat.response_schema import Logprob


def read_logprob(logprob: Logprob) -> Raw:
    """An entry of OpenAI's `content` list, with all fields that its clients need.

    Cohere may report several tokens together: their sum is the probability of the sequence.
    """
    entry = {
        "token": logprob.text,
        "logprob": sum(logprob.logprobs or ()),
        "bytes": list(logprob.text.encode()),
        "top_logprobs": list[Any](),
    }
    return Raw(msgspec.json.encode(entry))
