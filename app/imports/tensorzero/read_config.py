"""TensorZero's configuration as one of ours."""

from collections.abc import Mapping
from pathlib import Path

from app.domain.errors import BadConfiguration
from app.imports.credentials import CredentialReferences
from app.imports.draft import Draft, Imported
from app.imports.report import Report
from app.imports.source_table import SourceTable
from app.imports.tensorzero.credentials import CredentialReader
from app.imports.tensorzero.functions import FunctionReader
from app.imports.tensorzero.load_source import load_source
from app.imports.tensorzero.metrics import add_metrics
from app.imports.tensorzero.models import ModelReader
from app.imports.tensorzero.providers import ProviderReader
from app.imports.tensorzero.rate_limits import add_limits
from app.imports.tensorzero.referenced_files import ReferencedFiles
from app.imports.tensorzero.settings_advice import GATEWAY, SECTIONS
from app.imports.tensorzero.variants import VariantReader

_HEADER = "# Imported from TensorZero by `narthex import`. Read it, then: narthex apply FILE\n\n"
_KNOWN_SECTIONS = ("functions", "models", "embedding_models", "metrics", "tools", "gateway", "rate_limiting", "provider_types")


def import_tensorzero(source: str, root: Path | None, variables: Mapping[str, str]) -> Imported:
    """Reads a configuration of TensorZero. Raises BadConfiguration for files that are no such configuration.

    `source` is a file, a folder, or a pattern. Templates and schemas are read below `root`; None means below the source's own folder.
    """
    loaded = load_source(source)
    if not any(section in loaded.document for section in _KNOWN_SECTIONS):
        raise BadConfiguration(f"{source!r:.200} is no configuration of TensorZero: it has none of {', '.join(_KNOWN_SECTIONS)}.")
    report = Report()
    config = SourceTable(loaded.document, "", report)
    draft = Draft(report)
    gateway = config.table("gateway")
    files = ReferencedFiles(loaded.folders, root or loaded.root)
    credentials = CredentialReader(CredentialReferences(report), variables)
    providers = ProviderReader(draft, credentials, config)
    models = ModelReader(draft, providers)
    models.read_all(config)
    FunctionReader(draft, files, VariantReader(models, files, _read_template_base(gateway, files))).read_all(config)
    providers.report_unused()
    add_metrics(draft, config)
    add_limits(draft, config)
    gateway.leave_all_out(GATEWAY)
    config.leave_all_out(SECTIONS)
    config.report_unread()
    return draft.finish(_HEADER)


def _read_template_base(gateway: SourceTable, files: ReferencedFiles) -> Path | None:
    """The folder of templates that others include."""
    access = gateway.table("template_filesystem_access")
    enabled = access.flag("enabled")
    if enabled is False or ("base_path" not in access and not enabled):
        access.read("base_path")
        return None
    return files.folder_of(access, "base_path" if "base_path" in access else "enabled")
