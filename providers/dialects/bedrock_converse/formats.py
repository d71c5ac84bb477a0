"""What an answer is to be like: a schema as a string in a field for that, or in words, for models that have no such field.

Source: https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html, read 2026-11; aws_bedrock/04 and 14 of the recordings.
"""

from typing import Any

from providers.dialect import Concessions
from providers.dialects.bedrock_converse.families import Family
from providers.guided import JsonObject, JsonSchema, Output

_JSON = "Answer with JSON and with nothing else: no words before or after it, and no code fence around it."


def write_format(output: Output | None, family: Family, concessions: Concessions) -> tuple[dict[str, Any] | None, str | None]:
    """The field, or else a sentence for the system's instructions: whoever reads the answer then looks whether it was obeyed."""
    match output:
        case None:
            return None, None
        case JsonObject():
            return None, _JSON.replace("JSON", "a JSON object", 1)
        case JsonSchema():
            if output.strict is False:
                concessions.hint("output.strict")
            schema = bytes(output.schema).decode()
            if not family.structured:
                return None, f"{_JSON} It is valid by this JSON schema: {schema}"
            told = {"schema": schema, "name": output.name, "description": output.description}
            inner = {key: value for key, value in told.items() if value is not None}
            return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": inner}}}, None
        case _:
            concessions.without("output", "it holds answers to JSON schemas, and to nothing else.")
            return None, None
