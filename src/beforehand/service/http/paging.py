"""The files of the page, over HTTP: `/` and `/page/NAME`. Open to all, for they hold no data.

1. Only the modules that every diagram is drawn with (`beforehand.diagram.page`) and the files of the package
   `beforehand.service.page`, of a known kind, are served, by their plain names, as if they lay in one folder. They
   are read once, when the app is made, so that no path of a request ever reaches the file system.
2. Each has an `ETag` of its content; with `If-None-Match` an unchanged file is 304. Browsers ask every time
   (`no-cache`), so that a page and its modules are always of one version.
3. The content security policy is the guard's: no inline script or style, and nothing from anywhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, Response

from beforehand.diagram.page.sources import shared_files
from beforehand.service.http.access import needs_nothing
from beforehand.service.http.errors import HttpError
from beforehand.service.served import Served

__all__ = ["PageFile", "page_files", "routes"]

_PACKAGE: Final = "beforehand.service.page"
_FRAME: Final = re.compile(rb"<!-- The frame of every diagram .*? -->")
_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is served."""

    content: bytes
    kind: str
    tag: str


def page_files() -> dict[str, PageFile]:
    """All files of the page, by name; the frame stands in `index.html`."""
    contents = {name: text.encode() for name, text in shared_files().items()}
    frame = contents.pop("frame.html")
    for file in files(_PACKAGE).iterdir():
        if PurePosixPath(file.name).suffix in _KINDS:
            assert file.name not in contents, f"{file.name} is there twice"
            contents[file.name] = file.read_bytes()
    contents["index.html"], times = _FRAME.subn(lambda _: frame, contents["index.html"])
    assert times == 1, "index.html has one place for the frame"
    return {
        name: PageFile(content, _KINDS[PurePosixPath(name).suffix], f'"{sha256(content).hexdigest()[:32]}"')
        for name, content in contents.items()
    }


def routes(served: Served) -> APIRouter:  # noqa: ARG001 - All groups of routes are made alike.
    """The page."""
    router = APIRouter(tags=["page"], dependencies=[Depends(needs_nothing)])
    known = page_files()

    @router.get("/", summary="The page", include_in_schema=False)
    async def index(if_none_match: Annotated[str | None, Header()] = None) -> Response:
        return _answer(known["index.html"], if_none_match)

    @router.get("/page/{name}", summary="A file of the page", include_in_schema=False)
    async def file(name: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
        found = known.get(name)
        if found is None or name == "index.html":
            raise HttpError(404, "the page has no such file")
        return _answer(found, if_none_match)

    return router


def _answer(file: PageFile, if_none_match: str | None) -> Response:
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    tags = {tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")}
    if file.tag in tags or "*" in tags:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers={**headers, "Content-Type": file.kind})
