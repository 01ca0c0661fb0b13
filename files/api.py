"""`/v1/files`: the files of a user, as in OpenAI's API."""

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header
from ninja import Query, Router

from access.users.request_user import CallerQuery, identify_user
from api_base import pagination
from api_base.json_responses import json_response
from core.ids import UserId
from core.text.sanitization import escape_and_truncate
from database import database_executor
from files import file_store
from files.errors import FileUnknown
from files.schemas import UPLOAD_BODY, DeletedFile, FileList, FileObject, FilesQuery
from files.storage import content
from files.types import StoredFile, parse_file_id
from files.uploads import upload

router = Router(tags=["Files"])

MAX_ROWS = 1000
"""Files of a page, whatever `limit` is: `has_more` then says that there are more."""
SAFE_TYPES = frozenset(
    """
    application/json application/pdf audio/mpeg audio/wav image/gif image/jpeg
    image/png image/webp text/csv text/plain
    """.split()  # noqa: SIM905 (a line each is no easier to read)
)
"""The types with which content is returned; all else is `application/octet-stream`,
because browsers run scripts in HTML, SVG and XML."""


@router.post(
    "",
    summary="Upload a file",
    description="The same content a second time is the same file, with its new name "
    "and purpose.",
    response=FileObject,
    openapi_extra={"requestBody": UPLOAD_BODY},
)
async def upload_file(request: HttpRequest, query: Query[CallerQuery]) -> HttpResponse:
    user_id = identify_user(request, query)
    content_type = request.headers.get("Content-Type", "")
    file = await upload.receive(request, content_type, user_id)
    return json_response(FileObject.of(file))


@router.get("", summary="List your files, newest first", response=FileList)
async def list_files(request: HttpRequest, query: Query[FilesQuery]) -> HttpResponse:
    user_id = identify_user(request, query)
    cursor = await pagination.resolve_cursor(
        user_id, query.after, parse_id=parse_file_id, find=file_store.find_cursor
    )
    page, has_more = await database_executor.run(
        file_store.read_page,
        user_id,
        purpose=query.purpose,
        after=cursor,
        is_descending=query.order == "desc",
        limit=min(query.limit, MAX_ROWS),
    )
    items = [FileObject.of(file).model_dump() for file in page]
    return json_response(pagination.serialize_page(items, has_more=has_more))


@router.get("/{file_id}", summary="Show a file", response=FileObject)
async def show_file(
    request: HttpRequest, file_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    file = await _find_file(identify_user(request, query), file_id)
    return json_response(FileObject.of(file))


@router.get("/{file_id}/content", summary="Download the content of a file")
async def download_file(
    request: HttpRequest, file_id: str, query: Query[CallerQuery]
) -> StreamingHttpResponse:
    file = await _find_file(identify_user(request, query), file_id)
    opened = await content.run(content.open_content, file)
    is_safe = file.content_type in SAFE_TYPES
    return StreamingHttpResponse(
        content.stream(opened),
        content_type=file.content_type if is_safe else "application/octet-stream",
        headers={
            "Content-Length": str(file.size),
            "Content-Disposition": content_disposition_header(True, file.filename),
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
        },
    )


@router.delete("/{file_id}", summary="Delete a file", response=DeletedFile)
async def delete_file(
    request: HttpRequest, file_id: str, query: Query[CallerQuery]
) -> HttpResponse:
    user_id = identify_user(request, query)
    file = await _find_file(user_id, file_id)
    deleted = DeletedFile(id=file.file_id)
    await database_executor.run_to_end(file_store.delete_file, user_id, file.key)
    return json_response(deleted)


async def _find_file(user_id: UserId, file_id: str) -> StoredFile:
    """Return a user's file; raises `FileUnknown`."""
    file, parsed = None, parse_file_id(file_id)
    if parsed is not None:
        file = await database_executor.run(file_store.find_file, user_id, parsed)
    if file is None:
        shown = escape_and_truncate(file_id)
        raise FileUnknown(f"No such File object: {shown}", param="id")
    return file
