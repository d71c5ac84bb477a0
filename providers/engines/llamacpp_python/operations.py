"""Operations of llama-cpp-python's server: none. Source: docs/sources.md#llama-cpp-python (0.3.36), read 2026-11."""

from providers.operations.operation import ABORTED_BY_CLOSING, EngineOperations

LLAMACPP_PYTHON_OPERATIONS = EngineOperations({}, unavailable={"abort": ABORTED_BY_CLOSING})
