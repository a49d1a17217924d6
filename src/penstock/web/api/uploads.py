"""Uploads: `PUT` of the bytes of one file or of a link to it, and `POST` of a form with one or several files.

Both stream: the bytes go to the blob store as they arrive, without a connection to the database, and a document becomes visible
when all of its bytes are stored (documents/ingest/intake.py). The files of a form are independent: one whose name is taken does
not keep the others out.
"""

import dataclasses
import json
import sys
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from penstock.documents import Accepted, Upload
from penstock.errors import BadRequest, BadValue, BodyTooLarge, PenstockError, RateLimited, Refused
from penstock.web.dependencies import Caller, CollectionName, Writes, decode_metadata
from penstock.web.middleware.errors import RESPONSES, Problem, describe, refuse
from penstock.web.middleware.request_body import Form, Part, check_head, pieces

routes = APIRouter(prefix="/api/collections/{collection}/documents", tags=["documents"], responses=RESPONSES)

LINK_TYPE = "application/vnd.penstock.link+json"
LINK_MAX = 10_000  # bytes
GOES_ON = {409, 422}  # what concerns one file of a form; after anything else the rest is not read

Replace = Annotated[bool, Query(description="Add a version if the name is taken.")]
MetadataText = Annotated[str | None, Query(alias="metadata", description="A JSON object.")]
MetadataHeader = Annotated[str | None, Header(alias="X-Penstock-Metadata", description="The same as ?metadata=.")]
UploadedBy = Annotated[str, Query(max_length=200, description="The uploader; shown with the document.")]
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", description="The same key and body again get the first answer again, for a day."),
]


class FileAnswer(BaseModel):
    """The outcome of one file of a form."""

    name: str
    code: int = Field(description="The status that the file would have got alone.")
    document: Accepted | None = None
    problem: Problem | None = None


RAW = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            LINK_TYPE: {"schema": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}}},
        },
    }
}
FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "metadata": {"type": "string", "description": "A JSON object, for the files after it."},
                        "file": {"type": "array", "items": {"type": "string", "format": "binary"}},
                    },
                }
            }
        },
    }
}


@routes.put("/{name:path}", status_code=202, response_model=Accepted, openapi_extra=RAW)
async def put_document(  # noqa: PLR0913  a parameter of the request is an argument
    caller: Writes,
    request: Request,
    collection: CollectionName,
    name: str,
    *,
    replace: Replace = False,
    metadata: MetadataText = None,
    metadata_header: MetadataHeader = None,
    uploaded_by: UploadedBy = "",
    key: Key = None,
) -> Response:
    """Accept a file: the body is its bytes, or a link to it. 409 if the name is taken; `existing` is that document's id."""
    most = caller.app.settings.limits.bytes
    size = check_head(request, most)
    text, where = (metadata, "metadata") if metadata is not None else (metadata_header, "X-Penstock-Metadata")
    upload = Upload(
        collection,
        name,
        pieces(request, most),
        size,
        uploaded_by=caller.uploader(uploaded_by),
        metadata=decode_metadata(text, where),
        replace=replace,
        idempotency_key=key,
    )
    if _is_link(request):
        async with caller.product.fetcher.open(await _read_link(request), most=most) as found:
            made = await caller.product.intake.accept(
                dataclasses.replace(upload, content=found.pieces(), size=found.size), tenant=caller.tenant
            )
    else:
        made = await caller.product.intake.accept(upload, tenant=caller.tenant)
    caller.product.notifier.notify()
    return accepted(made)


def _is_link(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == LINK_TYPE


async def _read_link(request: Request) -> str:
    body = b"".join([piece async for piece in pieces(request, LINK_MAX)])
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.keys() != {"url"} or not isinstance(found["url"], str):
        raise BadValue('The body is not a link: write {"url": "https://example.org/file.pdf"}.')
    return found["url"]


@routes.post(
    "",
    status_code=202,
    response_model=Accepted,
    responses={207: {"model": list[FileAnswer], "description": "Several files: the outcome of each"}},
    openapi_extra=FORM,
)
async def post_documents(
    caller: Writes,
    request: Request,
    collection: CollectionName,
    *,
    replace: Replace = False,
    metadata: MetadataText = None,
    uploaded_by: UploadedBy = "",
    key: Key = None,
) -> Response:
    """Accept the files of a form. One file is answered like a PUT, several by a list with an answer for each."""
    check_head(request)
    form = Form(request.headers.get("content-type", ""), pieces(request, sys.maxsize))
    usual = Upload(
        collection,
        "",
        form.content(),
        uploaded_by=caller.uploader(uploaded_by),
        metadata=decode_metadata(metadata, "metadata"),
        replace=replace,
        idempotency_key=key,
    )
    upload = _FormUpload(caller, form, usual)
    await upload.read()
    return upload.response()


class _FormUpload:
    """The files of a form, one after the other, and the outcome of each."""

    def __init__(self, caller: Caller, form: Form, usual: Upload) -> None:
        self._caller = caller
        self._product = caller.product
        self._form = form
        self._usual = usual  # what is the same for all files
        self._outcomes: list[tuple[str, Accepted | PenstockError]] = []

    async def read(self) -> None:
        """Read to the end of the form, or to an error that concerns all of it."""
        try:
            async for part in self._form.parts():
                if part.file_name is None:
                    await self._take_field(part)
                elif part.file_name and not await self._take_file(part.file_name):
                    return
        except Refused as error:
            self._outcomes.append(("", error))

    async def _take_field(self, part: Part) -> None:
        if part.name == "metadata":
            metadata = decode_metadata(await self._form.text(part), "The field metadata")
            self._usual = dataclasses.replace(self._usual, metadata=metadata)

    async def _take_file(self, name: str) -> bool:
        """Whether to go on."""
        key = self._usual.idempotency_key
        if key is not None and self._outcomes:  # the same form again shall find the same answers
            key = f"{key}#{len(self._outcomes)}"
        content = _capped(self._form.content(), self._product.app.settings.limits.bytes)
        upload = dataclasses.replace(self._usual, name=name, content=content, idempotency_key=key)
        try:
            self._outcomes.append((name, await self._product.intake.accept(upload, tenant=self._caller.tenant)))
        except (Refused, RateLimited) as error:
            self._outcomes.append((name, error))
            return describe(error).status in GOES_ON
        self._product.notifier.notify()
        return True

    def response(self) -> Response:
        if not self._outcomes:
            raise BadRequest("The form has no file: send a part with a file name.")
        if len(self._outcomes) == 1:
            [(_, outcome)] = self._outcomes
            return refuse(outcome) if isinstance(outcome, PenstockError) else accepted(outcome)
        answers = [_file_answer(name, outcome) for name, outcome in self._outcomes]
        status = 202 if all(each.document is not None for each in answers) else 207
        return JSONResponse([each.model_dump(mode="json", exclude_none=True) for each in answers], status)


def accepted(made: Accepted) -> Response:
    """202, with the address of the document."""
    return JSONResponse(made.answer(), 202, {"Location": f"/api/documents/{made.id}"})


def _file_answer(name: str, outcome: Accepted | PenstockError) -> FileAnswer:
    if isinstance(outcome, PenstockError):
        problem = describe(outcome)
        return FileAnswer(name=name, code=problem.status, problem=problem)
    return FileAnswer(name=name, code=202, document=outcome)


async def _capped(content: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    count = 0
    async for piece in content:
        count += len(piece)
        if count > most:
            raise BodyTooLarge(f"The file is larger than {most:,} bytes (limits.bytes): send a smaller one.")
        yield piece
