"""How a request body of OpenAI's chat or completions is prepared for an engine."""

from providers.canonical.raw_json import Body, merge_object


def prepare_upstream_body(body: Body, stream: bool, *, include_usage: bool) -> None:
    """Sets `stream` and `stream_options` of a request for an engine. `include_usage` says that the engine accepts a request for usage."""
    if not stream:
        body.pop("stream", None)
        body.pop("stream_options", None)
        return
    body["stream"] = True
    if include_usage:
        body["stream_options"] = merge_object(body.get("stream_options"), {"include_usage": True})
    else:
        body.pop("stream_options", None)
