"""Reads the form of an upload (`multipart/form-data`) without holding its file.

Django's own reader holds fields of any length, and the limit of this body is that of
the largest file.
"""

import hashlib
import re
import tempfile
from contextlib import suppress
from typing import Any, Protocol

from django.core.files.base import File
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from core.errors import Invalid
from core.text.sanitization import escape_and_truncate
from files.errors import FileTooLarge
from files.storage import backends
from files.uploads.content_types import TypeDetector

CHUNK_BYTES = 256 * 1024
MAX_PARTS = 16
MAX_FIELD_BYTES = 4096
MAX_NAME_LENGTH = 255
FILE_FIELD = "file"
DEFAULT_NAME = "upload"

PATH_SEPARATORS = re.compile(r"[/\\]")
ENCODED = re.compile("%(0[0-9A-F]|1[0-9A-F]|22)")
"""How clients encode quotes and control characters in names (HTML's forms)."""


class Body(Protocol):
    """A body to read."""

    def read(self, size: int, /) -> bytes: ...


class FormInvalid(Invalid):
    """The body is not a valid form."""

    code = "invalid_form"


class ReceivedFile(File):  # type: ignore[type-arg]  # not at run time
    """The file of a form, in the folder of uploads.

    Closing it deletes it, unless a storage has moved it away.
    """

    def __init__(self, name: str, max_bytes: int | None) -> None:
        folder = backends.upload_folder()
        # Closed with this object.
        self._temporary = tempfile.NamedTemporaryFile(dir=folder)  # noqa: SIM115
        super().__init__(self._temporary, name)
        self.length = 0
        self._max_bytes = max_bytes
        self._digest = hashlib.sha256()
        self._detector = TypeDetector()

    def temporary_file_path(self) -> str:
        """Return its path, from which Django's storage moves it."""
        return self._temporary.name

    def add(self, chunk: bytes) -> None:
        """Add bytes; raises `FileTooLarge`."""
        self.length += len(chunk)
        if self._max_bytes is not None and self.length > self._max_bytes:
            raise FileTooLarge(
                f"the file is larger than the maximum of {self._max_bytes} bytes",
                param=FILE_FIELD,
            )
        self._digest.update(chunk)
        self._detector.feed(chunk)
        self._temporary.write(chunk)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    @property
    def content_type(self) -> str:
        return self._detector.content_type(self.name or "")

    def close(self) -> None:
        with suppress(FileNotFoundError):
            super().close()


class FormReader:
    """Receives the events of the parser: parts, their headers, their data."""

    def __init__(self, max_bytes: int | None) -> None:
        self.fields: dict[str, str] = {}
        self.file: ReceivedFile | None = None
        self.is_complete = False
        self._max_bytes = max_bytes
        self._parts = 0

    def callbacks(self) -> Any:
        """Return the callbacks for the parser."""
        names = (name for name in dir(self) if name.startswith("_on_"))
        return {name[1:]: getattr(self, name) for name in names}

    def close(self) -> None:
        if self.file is not None:
            self.file.close()

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise FormInvalid(
                f"the form has more than {MAX_PARTS} parts: 'file' and 'purpose' are "
                "enough"
            )
        self._headers: dict[bytes, bytes] = {}
        self._header, self._value, self._data = b"", b"", b""

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._header.lower()] = self._value
        self._header, self._value = b"", b""

    def _on_headers_finished(self) -> None:
        disposition = self._headers.get(b"content-disposition", b"")
        _, options = parse_options_header(disposition)
        self._name = _decode(options.get(b"name", b""))
        if self._name in self.fields or (self._name == FILE_FIELD and self.file):
            raise FormInvalid(
                "the form has a part twice: send it once", param=self._name[:100]
            )
        if self._name == FILE_FIELD:
            filename = _decode(options.get(b"filename", b""))
            self.file = ReceivedFile(clean_filename(filename), self._max_bytes)

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        chunk = data[start:end]
        if self._name == FILE_FIELD and self.file is not None:
            self.file.add(chunk)
            return
        self._data += chunk
        if len(self._data) > MAX_FIELD_BYTES:
            raise FormInvalid(
                f"a field of the form is longer than {MAX_FIELD_BYTES} bytes: "
                "shorten it"
            )

    def _on_part_end(self) -> None:
        if self._name != FILE_FIELD:
            self.fields[self._name] = _decode(self._data)

    def _on_end(self) -> None:
        self.is_complete = True


def read_form(body: Body, content_type: str, max_bytes: int | None) -> FormReader:
    """Read a form; the caller closes it. Raises `FormInvalid` and `FileTooLarge`."""
    reader = FormReader(max_bytes)
    try:
        parser = _parser(content_type, reader)
        while chunk := body.read(CHUNK_BYTES):
            parser.write(chunk)
        if not reader.is_complete:
            raise FormInvalid(
                "the form is incomplete: send it whole, to its last boundary"
            )
    except BaseException as exc:
        reader.close()
        if isinstance(exc, FormParserError):
            reason = escape_and_truncate(str(exc))
            raise FormInvalid(
                f"the form is not valid ({reason}): send it as multipart/form-data, "
                "with short names"
            ) from exc
        raise
    return reader


def _parser(content_type: str, reader: FormReader) -> MultipartParser:
    form_type, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if form_type != b"multipart/form-data" or not boundary:
        raise FormInvalid(
            "an upload is a form: send Content-Type: multipart/form-data with the "
            "parts 'file' and 'purpose'"
        )
    return MultipartParser(boundary, reader.callbacks())


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def clean_filename(name: str) -> str:
    """Return a name without folders and invisible characters.

    It is only shown: the storage never sees it.
    """
    decoded = ENCODED.sub(lambda match: chr(int(match[1], 16)), name)
    last = PATH_SEPARATORS.split(decoded)[-1]
    visible = "".join(filter(str.isprintable, last)).strip()
    stem = visible.strip(".")
    return visible[:MAX_NAME_LENGTH] if stem else DEFAULT_NAME
