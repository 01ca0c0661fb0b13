"""The media type of content, by its first bytes ("magic bytes").

A name or a header may say anything; the content decides what a file is.
"""

import codecs
import os

HEAD_BYTES = 1024
"""The bytes in which a type shows."""
BINARY = "application/octet-stream"
TEXT_CONTROLS = b"\t\n\f\r\x1b"
NOT_IN_TEXT = bytes(set(range(32)) - set(TEXT_CONTROLS) | {127})
"""The control characters that no text has."""

SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\1\0", "image/x-icon"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    (b"PK\3\4", "application/zip"),
    (b"PK\5\6", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/x-executable"),
    (b"\xfe\xed\xfa\xce", "application/x-executable"),
    (b"\xfe\xed\xfa\xcf", "application/x-executable"),
    (b"\xce\xfa\xed\xfe", "application/x-executable"),
    (b"\xcf\xfa\xed\xfe", "application/x-executable"),
    (b"\xca\xfe\xba\xbe", "application/x-executable"),
    (b"\0asm", "application/wasm"),
)
RIFF_TYPES = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
ISO_TYPES = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"M4A ": "audio/mp4",
    b"qt  ": "video/quicktime",
}
"""The types of ISO media files by their major brand; others are `video/mp4`."""

TEXT_TYPES = {
    ".css": "text/css",
    ".csv": "text/csv",
    ".htm": "text/html",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".md": "text/markdown",
    ".svg": "image/svg+xml",
    ".tsv": "text/tab-separated-values",
    ".xhtml": "text/html",
    ".xml": "text/xml",
}
"""The types of texts, which have no signature, by the extension of the name."""
EXTENSIONS = {
    ".avif": "image/avif",
    ".flac": "audio/flac",
    ".gif": "image/gif",
    ".gz": "application/gzip",
    ".heic": "image/heic",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".mp3": "audio/mpeg",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".wav": "audio/wav",
    ".webp": "image/webp",
    ".zip": "application/zip",
}
"""What files with these names must be."""


class TypeDetector:
    """Finds the type of content that is fed in chunks."""

    def __init__(self) -> None:
        self._head = b""
        self._is_text = True

    def feed(self, chunk: bytes) -> None:
        if len(self._head) < HEAD_BYTES:
            self._head += chunk[: HEAD_BYTES - len(self._head)]
        if self._is_text and not self._is_utf16:
            self._is_text = len(chunk.translate(None, NOT_IN_TEXT)) == len(chunk)

    @property
    def _is_utf16(self) -> bool:
        return self._head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))

    def content_type(self, filename: str) -> str:
        """Return the type; a text's name tells its kind."""
        if self._is_text and not self._head.startswith(b"%PDF-"):
            return _markup_type(self._head) or TEXT_TYPES.get(
                _extension(filename), "text/plain"
            )
        return _signed_type(self._head)


def _signed_type(head: bytes) -> str:
    for signature, content_type in SIGNATURES:
        if head.startswith(signature):
            return content_type
    if head.startswith(b"RIFF"):
        return RIFF_TYPES.get(head[8:12], BINARY)
    if head[4:8] == b"ftyp":
        return ISO_TYPES.get(head[8:12], "video/mp4")
    return BINARY


def _markup_type(head: bytes) -> str | None:
    """Return the type of HTML and SVG, whatever their name is."""
    start = head.removeprefix(codecs.BOM_UTF8).lstrip().lower()
    if start.startswith(b"<svg") or (start.startswith(b"<?xml") and b"<svg" in start):
        return "image/svg+xml"
    is_html = start.startswith((b"<!doctype html", b"<html"))
    return "text/html" if is_html else None


def expected_type(filename: str) -> str | None:
    """Return the type that a name promises, if content of this type has a signature."""
    return EXTENSIONS.get(_extension(filename))


def _extension(filename: str) -> str:
    return os.path.splitext(filename)[1].lower()
