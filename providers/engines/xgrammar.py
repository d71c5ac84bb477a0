"""xgrammar, by which vLLM, SGLang and LMDeploy hold answers, unless told otherwise: what it passes over without a word.

Seen on 0.2.8, alone and in vLLM 0.32, in 2026-11: tests/engines/test_xgrammar_direct.py, test_vllm_direct_schemas.py.
"""

from msgspec.structs import replace

from providers.guided import Constraint, Guiding, JsonSchema, Regex, StructuralTag, Ways

_ANY_BUT_NEWLINE = "[^\\n]"


def honest(told: Guiding | None, constraint: Constraint, ways: Ways, *, vouched: bool) -> Guiding | None:
    """What is told of a constraint that the engine is asked for: what it would obey in part is looked at, unless the operator vouches."""
    if told is None or told.how != "enforced":
        return told
    match told.output:
        case JsonSchema() | StructuralTag() if constraint.field in constraint.loose and not vouched:
            return replace(told, how="validated")
        case Regex(pattern) if write_pattern(pattern) != pattern:
            return replace(told, how="converted", fields=ways["regex"].write(Regex(write_pattern(pattern))))
        case _:
            return told


def write_pattern(pattern: str) -> str:
    """Its `.` is the end of a line, too."""
    written: list[str] = []
    in_class = escaping = False
    for each in pattern:
        written.append(_ANY_BUT_NEWLINE if each == "." and not in_class and not escaping else each)
        if escaping or each == "\\":
            escaping = not escaping
        elif each == "[":
            in_class = True
        elif each == "]":
            in_class = False
    return "".join(written)
