"""The addresses and the base64 of images, files and sounds in a message.

The provider fetches an address, never this server. A provider in the operator's network
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
"""Characters of an image in the message; `server.max_body_bytes` is smaller by
default."""
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
    """Return a file's base64, `data:` URL, or address, checked like an image's."""
    match _scheme(data):
        case None:
            _check_base64(data)
        case "data":
            head, comma, content = data.partition(",")
            if not comma or not head.endswith(";base64"):
                _refuse("a data: URL must start with data:TYPE;base64,")
            _check_base64(content)
        case _:
            _check_http_url(data)
    return data


def check_audio(data: str) -> str:
    """Return the base64 of a sound; raises `PydanticCustomError`."""
    _check_base64(data)
    return data


def _scheme(url: str) -> str | None:
    match = SCHEME_PATTERN.match(url)
    return None if match is None else match[0][:-1].lower()


def _refuse(reason: str, **quoted: Any) -> NoReturn:
    raise PydanticCustomError("media_data", reason, quoted or None)


def _check_data(url: str) -> None:
    if len(url) > MAX_DATA_LENGTH:
        _refuse(f"the image is larger than {MAX_DATA_LENGTH // 2**20} MiB of base64")
    prefix = IMAGE_DATA_PATTERN.match(url)
    if prefix is None:
        _refuse(
            "a data: URL must start with data:image/TYPE;base64, where TYPE is one of "
            f"{IMAGE_TYPES.replace('|', ', ')}"
        )
    _check_base64(url[prefix.end() :])


def _check_base64(text: str) -> None:
    try:
        content = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        content = b""
    if not content:
        _refuse("the data must be valid base64, with padding")


def _check_http_url(url: str) -> None:
    if len(url) > MAX_URL_LENGTH:
        _refuse(f"the address is longer than {MAX_URL_LENGTH} characters")
    if "\\" in url or any(character.isspace() for character in url):
        _refuse("the address contains a backslash or white space: percent-encode them")
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
        _refuse("the address must not contain a user name or password")
    if not HOST_PATTERN.fullmatch(parts.netloc):
        _refuse(
            "the host must be an ASCII name (xn--… for other letters), an IPv4 address "
            "or an IPv6 address in brackets"
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
