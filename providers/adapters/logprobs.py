"""Logprobs of a chat, where an engine rejects combinations of fields that OpenAI takes."""

from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy


def drop_lone_top_logprobs(body: Body, drop_policy: DropPolicy) -> None:
    """Drops or refuses `top_logprobs` without `logprobs`; a value of 0 requests nothing and goes without a report."""
    if "top_logprobs" not in body or body.value("logprobs") is True:
        return
    if body.value("top_logprobs"):
        drop_policy.drop_or_refuse("top_logprobs", "it reports none without `logprobs`.")
    else:
        del body["top_logprobs"]
