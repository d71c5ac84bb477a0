"""Operations of the sandbox engine."""

from providers.operations.operation import ABORTED_BY_CLOSING, EngineOperations, Operation

SANDBOX_OPERATIONS = EngineOperations({"metrics": Operation("GET", ("/metrics",))}, unavailable={"abort": ABORTED_BY_CLOSING})
