"""Whether choices are an answer at all, told from their bytes."""

import re

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidUpstreamResponse

# A text that is not empty, arguments or content in another form, or a list of parts, calls or images. A text that holds one of these
# names has its quotes escaped.
has_content = re.compile(
    rb'"(?:content|text|reasoning|reasoning_content|reasoning_details|thinking|refusal|name|arguments|input|data|transcript|images|token_ids)"\s*:\s*(?:"[^"]|\{|\[\s*[^\]\s])'
).search


def check_answered(choices: bytes, reason: str | None, usage: Usage | None) -> None:
    """Raises InvalidUpstreamResponse for a response without content or calls that nothing shows to be the model's answer.

    It is one if usage was reported, for a model may end at once; or if the response was cut off or filtered. `reason` is the engine's own.
    """
    if has_content(choices) is not None:
        return
    if not reason:
        raise InvalidUpstreamResponse("The engine's answer is empty, and does not say why it ended.")
    if reason not in ("length", "content_filter") and (usage is None or not (usage.input or usage.output)):
        raise InvalidUpstreamResponse("The engine's answer is empty: it has neither content nor calls nor usage.")
