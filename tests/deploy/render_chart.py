"""Renders and lints the chart with Helm as a library. Run by the Python of .venv-deploy: render_chart.py CHART < VALUES as JSON.

Prints {"manifests": {path: text}, "findings": [text]}, or {"error": text} where Helm refuses the values.
"""

import json
import sys

import helm_python  # pyright: ignore[reportMissingImports]


def main(path: str) -> None:
    values = json.load(sys.stdin)
    try:
        with helm_python.Chart.load(path) as chart:  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            manifests = chart.render(values, name="release", namespace="models")  # pyright: ignore
        report = helm_python.lint(path, values, strict=True)  # pyright: ignore
        findings = [f"{each['path']}: {each['error']}" for each in report["messages"] if each["severity"] >= 2]  # pyright: ignore
        print(json.dumps({"manifests": manifests, "findings": findings + report["errors"]}))  # noqa: T201 # pyright: ignore
    except helm_python.HelmError as fault:  # pyright: ignore
        print(json.dumps({"error": str(fault)}))  # noqa: T201 # pyright: ignore


if __name__ == "__main__":
    main(sys.argv[1])
