"""Operations of mini-sglang. Source: docs/sources.md#mini-sglang (2026-03), read 2026-11."""

from providers.operations.operation import ABORTED_BY_CLOSING, EngineOperations, Operation

MINI_SGLANG_OPERATIONS = EngineOperations(
    # It streams in any case: the response is the text of the stream.
    {"generate": Operation("POST", ("/generate",), accepts_any_field=True, on_one_endpoint=True)},
    unavailable={"abort": ABORTED_BY_CLOSING},
)
