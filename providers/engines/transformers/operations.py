"""Operations of `transformers serve`. Source: docs/sources.md#transformers-serve (5.19), read 2026-11."""

from providers.operations.operation import ABORTED_BY_CLOSING, EngineOperations, Operation

TRANSFORMERS_OPERATIONS = EngineOperations(
    {"sleep": Operation("POST", ("/reset",))},
    unavailable={"abort": ABORTED_BY_CLOSING, "wake": "transformers serve loads a model at the next request for it."},
)
