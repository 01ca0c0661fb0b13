"""The addresses of images and files in a message.

The server fetches none of them. The provider does, and the operator's own provider
(Ollama, vLLM) may have access to hosts that clients must not reach.
"""

import binascii
import re
from typing import Any, NoReturn
from urllib.parse import SplitResult, urlsplit

from pydantic_core import PydanticCustomError

from config import live
from config.config import SERVER
from core.network import private_hosts
from core.text.sanitization import escape_and_truncate

MAX_URL_LENGTH = 8_192
MAX_DATA_LENGTH = 20 * 1024 * 1024
"""Characters of an image in the message; the default of `server.max_body_bytes` is
smaller."""
IMAGE_TYPES = "avif|bmp|gif|heic|heif|jpeg|jpg|png|tiff|webp"

IMAGE_DATA_PATTERN = re.compile(rf"data:image/(?:{IMAGE_TYPES});base64,", re.IGNORECASE)
SCHEME_PATTERN = re.compile(r"[a-z][a-z0-9+.-]{0,30}:", re.IGNORECASE)
HOST_PATTERN = re.compile(
    r"(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.IGNORECASE
)


def check_image(url: str) -> str:
    """Return an image's `data:` or http(s) URL; raises `PydanticCustomError`."""
    if _scheme(url) == "data":
        _check_data(url)
    else:
        _check_http_url(url)
    return url


def check_file(data: str) -> str:
    """Return a file's contents; an address instead of contents is checked as an
    image's."""
    if _scheme(data) not in (None, "data"):
        _check_http_url(data)
    return data


def _scheme(url: str) -> str | None:
    found = SCHEME_PATTERN.match(url)
    return None if found is None else found[0][:-1].lower()


def _refuse(reason: str, **quoted: Any) -> NoReturn:
    raise PydanticCustomError("image_url", reason, quoted or None)


def _check_data(url: str) -> None:
    if len(url) > MAX_DATA_LENGTH:
        _refuse(f"an image may have {MAX_DATA_LENGTH // 2**20} MiB of base64")
    head = IMAGE_DATA_PATTERN.match(url)
    if head is None:
        _refuse(
            "a data: URL must start with data:image/TYPE;base64, where TYPE is one of "
            f"{IMAGE_TYPES.replace('|', ', ')}"
        )
    try:
        is_empty = not binascii.a2b_base64(url[head.end() :], strict_mode=True)
    except ValueError:
        is_empty = True
    if is_empty:
        _refuse("the data: URL has no valid base64, with its padding, after the comma")


def _check_http_url(url: str) -> None:
    if len(url) > MAX_URL_LENGTH:
        _refuse(f"an address may have {MAX_URL_LENGTH} characters")
    if "\\" in url or any(character.isspace() for character in url):
        _refuse("an address has no backslash and no white space: percent-encode them")
    host = _host(url)
    if private_hosts.is_private(host) and not _are_private_allowed():
        _refuse(
            "the host '{host}' is not public: send the image as a data: URL",
            host=escape_and_truncate(host),
        )


def _are_private_allowed() -> bool:
    return live.current().get(SERVER).allow_private_images


def _host(url: str) -> str:
    """Return the host of an http(s) address that all programs parse alike."""
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https"):
        _refuse("it must be an http(s) address or a data: URL")
    if "@" in parts.netloc:
        _refuse("an address must not have a user name or password")
    if not HOST_PATTERN.fullmatch(parts.netloc):
        _refuse(
            "the host must be a name in ASCII (xn--… where it has other letters), an "
            "IPv4 address or an IPv6 address in brackets"
        )
    return parts.netloc.rpartition(":")[0] if _has_port(parts.netloc) else parts.netloc


def _split(url: str) -> SplitResult | None:
    # urlsplit drops control characters that other parsers keep.
    if not url.isprintable():
        return None
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _has_port(netloc: str) -> bool:
    return ":" in netloc.rpartition("]")[2]
