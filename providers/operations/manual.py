"""The manual of the operations, made from their data. docs/engines/operations.md holds it, and a test compares the two."""

from collections.abc import Iterator, Mapping

from providers.operations.operation import EngineOperations, Operation


def operations_manual(operations_by_engine: Mapping[str, EngineOperations]) -> str:
    """Markdown: for each engine a table of its operations, and why it lacks those of others."""
    return "\n\n".join(
        f"### {engine}\n\n" + "\n\n".join(_sections(engine_operations)) for engine, engine_operations in operations_by_engine.items()
    )


def _sections(engine_operations: EngineOperations) -> Iterator[str]:
    if engine_operations.operations:
        rows = [
            f"| `{name}` | {_call(operation)} | {_arguments(operation)} | {_requirements(operation)} |"
            for name, operation in engine_operations.operations.items()
        ]
        yield "\n".join(["| operation | the engine's call | arguments | |", "|---|---|---|---|", *rows])
    reasons: dict[str, list[str]] = {}
    for name, reason in engine_operations.unavailable.items():
        reasons.setdefault(reason, []).append(f"`{name}`")
    if reasons:
        yield "\n".join(f"- {', '.join(names)}: {why}" for why, names in reasons.items())


def _call(operation: Operation) -> str:
    return " or ".join(f"`{operation.method} {path}`" for path in operation.paths)


def _arguments(operation: Operation) -> str:
    parts = [f"`{name}`" if argument.required else f"`{name}`?" for name, argument in operation.arguments.items()]
    return ", ".join([*parts, *(["any field of the call"] if operation.accepts_any_field else [])])


def _requirements(operation: Operation) -> str:
    requirements = list(dict.fromkeys(operation.startup_requirements.values()))
    parts = [
        *requirements,
        *(["`confirm`: true"] if operation.needs_confirmation else []),
        *(["one endpoint"] if operation.on_one_endpoint else []),
    ]
    return "; ".join(parts)
