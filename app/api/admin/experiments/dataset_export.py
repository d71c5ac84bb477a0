"""The export of a dataset's version for training: /admin/v1/datasets/{name}/versions/{number}/export."""

from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from app.api.admin.experiments.dataset_lookup import NEWEST, NO_VERSION, TAG, VERSION_PATH, find_dataset, find_version
from app.api.admin.records.inferences import TIMEOUT_S
from app.api.rest.command import Command, Option
from app.api.rest.export import export_answer
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.datasets.export import ExportFormat, export_rows
from app.store.datasets import datasets as store
from app.store.datasets.rows import Split
from app.store.formats.parquet_lines import MISSING, PARQUET_MEDIA_TYPE, can_write
from providers.canonical.errors import Conflict, InvalidRequest

_JSONL = "application/jsonl"


class ExportQuery(Struct, frozen=True, forbid_unknown_fields=True):
    format: Annotated[
        ExportFormat,
        Meta(
            description="Lines for supervised fine-tuning of chats, for preference (DPO) or of completions, as OpenAI takes them; or"
            " Parquet with every row, which takes the extra narthex[parquet]."
        ),
    ] = "chat"
    split: Annotated[Split, Meta(description="Only this split.")] | None = None


async def _export(call: Call[ExportQuery, NoBody]) -> Answer:
    format, split = call.query.format, call.query.split
    if format == "parquet" and not can_write():
        raise InvalidRequest(MISSING, param="format")
    async with call.read_transaction() as connection:
        dataset = await find_dataset(call, connection=connection)
        version = await find_version(call, dataset, connection=connection, is_complete=True)
    if version.shown.status != "complete":
        raise Conflict(f"Version {version.shown.number} is {version.shown.status}: only what is complete can be exported.")
    async with call.write_transaction() as connection:
        await store.record_export(connection, call.author, dataset, version.shown.number, format, split)
    extension = "parquet" if format == "parquet" else f"{format}.jsonl"
    filename = f"narthex-dataset-v{version.shown.number}{'' if split is None else f'-{split}'}.{extension}"
    rows = export_rows(call.read_transaction, version.id, format, split)
    answer = export_answer(call, rows, filename, PARQUET_MEDIA_TYPE if format == "parquet" else _JSONL)
    left_out = 0 if format == "parquet" else sum(version.shown.counts.left_out.get(format, {}).values())
    warning = f"{left_out:,} rows cannot be said in this format: `narthex datasets show` says why."
    return replace(answer, warnings=[warning] if left_out else [])


def operations() -> list[Operation[Any, Any]]:
    return [
        Operation(
            method="GET",
            path=f"{VERSION_PATH}/export",
            id="export_dataset_version",
            tag=TAG,
            summary="Export a version for training",
            description="A row a line, in OpenAI's fine-tuning formats, or Parquet. What a format cannot say is left out: `counts.left_out`"
            " says how many rows and why. `newest` is the newest version that is complete. An export that breaks off is not complete:"
            " repeat it. It is in the audit log.",
            permission="records:content",
            scope="team",
            access="memory",
            query=ExportQuery,
            response=str,
            response_media_type=_JSONL,
            other_media_types=(PARQUET_MEDIA_TYPE,),
            errors={**NO_VERSION, 409: "The version is not complete."},
            timeout_s=TIMEOUT_S,
            commands=(
                Command(
                    name="datasets export",
                    summary="Write a version of dataset NAME as a file to train with.",
                    help="What the format cannot say is left out, and counted on the error output; `narthex datasets show` has the reasons."
                    " Parquet has every row, and takes the extra narthex[parquet]. The export is in the audit log.",
                    examples=(
                        "datasets export helpful > helpful.jsonl",
                        "datasets export corrected --split train --file train.jsonl",
                        "datasets export corrected --format preference --file pairs.jsonl",
                        "datasets export helpful --version 2 --format parquet --file helpful.parquet",
                    ),
                    options={
                        "{number}": Option(
                            flag="--version",
                            kind="integer",
                            metavar="NUMBER",
                            default=NEWEST,
                            help="Without it, the newest that is complete.",
                        )
                    },
                ),
            ),
            handler=_export,
        ),
    ]
