"""The page at /docs: the guide, and every operation by group. A script (dashboard/src/reference) makes of it what one can search and try.

Without the script it is the guide and a list. Nothing is inline, and nothing is loaded from elsewhere.
"""

from collections.abc import Iterable, Mapping
from html import escape

from app.api.openapi.schemas import Schema

# Where its files are: of a path of its own, so that they are there where the dashboard is switched off.
STATIC_PATH = "/docs/static"


def render_page(document: Schema, guide: str, files: Iterable[str], *, dashboard: str | None) -> str:
    """Renders the page around a guide in HTML.

    `files` are the names of those that the page needs. `dashboard` is its path, or None where there is none.
    """
    back = f' data-dashboard="{dashboard}"' if dashboard else ""
    link = f'<p><a href="{dashboard}">Dashboard</a></p>' if dashboard else ""
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>API reference · Narthex</title>\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n',
            *_links(files),
            f'</head>\n<body>\n<div id="reference"{back}>\n<main class="reference-plain">\n<h1>Narthex: the API</h1>\n{link}',
            '<p>The same as a document for programs: <a href="/openapi.json">/openapi.json</a> (OpenAPI 3.1).</p>\n',
            *_operations(document),
            f'</main>\n</div>\n<article id="guide" class="guide">\n{guide}</article>\n</body>\n</html>\n',
        )
    )


def _links(files: Iterable[str]) -> Iterable[str]:
    for name in files:
        address = f"{STATIC_PATH}/{name}"
        if name.startswith("reference-") and name.endswith(".js"):
            yield f'<script type="module" src="{address}"></script>\n'
        elif name.endswith(".js"):
            yield f'<link rel="modulepreload" href="{address}">\n'
        elif name.endswith(".css"):
            yield f'<link rel="stylesheet" href="{address}">\n'
        elif name.endswith(".woff2"):
            yield f'<link rel="preload" href="{address}" as="font" type="font/woff2" crossorigin fetchpriority="low">\n'
        elif name.endswith(".svg"):
            yield f'<link rel="icon" href="{address}" type="image/svg+xml">\n'
    yield '<link rel="preload" href="/openapi.json" as="fetch" crossorigin>\n'


def _operations(document: Schema) -> Iterable[str]:
    by_tag: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "servers":
                by_tag.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    groups: Iterable[Mapping[str, str | list[str]]] = document["x-tagGroups"]
    for group in groups:
        yield f"<h2>{group['name']}</h2>\n"
        for tag in group["tags"]:
            yield f'<h3 id="{tag_id(tag)}">{escape(tag)}</h3>\n<ul>\n'
            for method, path, operation in by_tag[tag]:
                yield (
                    f'<li id="op-{operation["operationId"]}"><b>{method}</b> <code>{escape(path)}</code>'
                    f" {escape(operation['summary'])}</li>\n"
                )
            yield "</ul>\n"


def tag_id(tag: str) -> str:
    return "tag-" + tag.lower().replace(" ", "-")
