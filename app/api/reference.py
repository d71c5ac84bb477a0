"""GET /docs: the API reference (reference.md) as a page."""

from pathlib import Path

from litestar import Response, Router, get
from markdown_it import MarkdownIt

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Narthex: the API</title><style>
body{font:16px/1.55 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1c1c1c}
code,pre{font:14px/1.45 ui-monospace,monospace;background:#f4f2ee}pre{padding:.8rem;overflow-x:auto}
table{border-collapse:collapse}td,th{border:1px solid #d8d4cc;padding:.3rem .6rem;text-align:left;vertical-align:top}</style>"""


def routes() -> Router:
    page = _PAGE + MarkdownIt("commonmark").enable("table").render((Path(__file__).parent / "reference.md").read_text("utf-8"))

    @get("/docs")
    async def docs() -> Response[str]:
        return Response(page, media_type="text/html; charset=utf-8")

    return Router("/", route_handlers=[docs])
