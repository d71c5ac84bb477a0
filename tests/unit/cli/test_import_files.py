"""narthex import: what goes where, and what is never overwritten."""

import json
import tomllib
from pathlib import Path

from click.testing import CliRunner, Result

from app.cli import main

CONFIG = """
model_list:
  - model_name: sandbox-by-litellm
    litellm_params: { model: openai/sandbox, api_base: "http://127.0.0.1:9999", api_key: sk-literal, temperature: 0 }
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["import", *arguments], prog_name="narthex")


def test_configuration_goes_to_the_output_and_the_report_to_standard_error(tmp_path: Path) -> None:
    source = tmp_path / "config.yaml"
    source.write_text(CONFIG)
    done = run(str(source))
    assert done.exit_code == 0 and list(tomllib.loads(done.stdout)["models"]) == ["sandbox-by-litellm"]
    assert "Not imported:\n  model_list[0].litellm_params.temperature\n" in done.stderr
    assert "To do before it works:\n  model_list[0].litellm_params.api_key\n" in done.stderr
    assert f"1 provider, 1 model imported from {source}." in done.stderr and "sk-literal" not in done.output


def test_json_holds_all_of_it(tmp_path: Path) -> None:
    source = tmp_path / "config.yaml"
    source.write_text(CONFIG)
    done = run(str(source), "--json")
    document = json.loads(done.stdout)
    assert document["configuration"] == run(str(source)).stdout and document["counts"]["models"] == 1 and done.stderr == ""
    assert {"kind": "to_do", "path": "model_list[0].litellm_params.api_key"}.items() <= document["notes"][0].items()


def test_source_of_which_nothing_can_be_brought_is_a_failure(tmp_path: Path) -> None:
    target = tmp_path / "narthex.toml"
    empty, refused = tmp_path / "empty.yaml", tmp_path / "refused.yaml"
    empty.write_text("model_list: []\n")
    refused.write_text("model_list:\n  - model_name: x\n    litellm_params: { model: nobody/knows }\n")
    for source, why in ((empty, "it has no entries"), (refused, "the report above says why of each entry")):
        done = run(str(source), "-o", str(target))
        assert done.exit_code == 1 and done.stdout == "" and not target.exists()
        assert f"Nothing in {str(source)!r} could be imported: {why}." in done.stderr
    assert "Not imported:\n  model_list[0]" in done.stderr
    as_json = run(str(refused), "--json")
    assert as_json.exit_code == 1 and json.loads(as_json.stdout)["notes"] and "`notes` say why" in as_json.stderr


def test_file_is_replaced_only_if_forced(tmp_path: Path) -> None:
    source, target = tmp_path / "config.yaml", tmp_path / "narthex.toml"
    source.write_text(CONFIG)
    done = run(str(source), "--output", str(target))
    assert done.exit_code == 0 and done.stdout == "" and f"narthex apply {target}" in done.stderr
    written = target.read_text()
    target.write_text("mine")
    refused = run(str(source), "-o", str(target))
    assert refused.exit_code == 1 and "exists already" in refused.stderr and target.read_text() == "mine"
    assert run(str(source), "-o", str(target), "--force").exit_code == 0 and target.read_text() == written
    link = tmp_path / "link.toml"
    link.symlink_to(tmp_path / "nowhere")
    assert run(str(source), "-o", str(link)).exit_code == 1 and not (tmp_path / "nowhere").exists()


def test_source_is_never_replaced(tmp_path: Path) -> None:
    source = tmp_path / "config.yaml"
    source.write_text(CONFIG)
    assert run(str(source), "-o", str(source), "--force").exit_code == 1 and source.read_text() == CONFIG


def test_nothing_is_written_for_a_source_that_is_refused(tmp_path: Path) -> None:
    source, target = tmp_path / "config.yaml", tmp_path / "narthex.toml"
    source.write_text("model_list: [")
    refused = run(str(source), "-o", str(target))
    assert refused.exit_code == 1 and "not YAML" in refused.stderr and not target.exists()
    absent = run(str(tmp_path / "absent.yaml"))
    assert absent.exit_code == 1 and "cannot be read" in absent.stderr
