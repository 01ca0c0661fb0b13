"""The language a reply must be in."""

import re
from typing import TYPE_CHECKING

from core.text.sanitization import escape_and_truncate
from turns.errors import LanguageInvalid

if TYPE_CHECKING:
    from langcodes import Language

NAMES = {
    "ar": "Arabic",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "sv": "Swedish",
    "tr": "Turkish",
    "zh": "Chinese",
}

TAG_PATTERN = re.compile(r"[A-Za-z]{1,8}([-_][A-Za-z0-9]{1,8})*")
"""langcodes also accepts "123" as a language."""

MAX_LENGTH = 35
"""RFC 5646 requires support for this length; no longer tag is in use."""


def instruction(tag: str) -> str:
    """Return the instruction to reply in the language of a BCP 47 tag.

    Common languages appear by their English name, others by the tag, which models
    understand. `en_US` counts as `en-US`. Raises `LanguageInvalid` for a malformed tag.
    """
    language = _find_language(tag) if _is_well_formed(tag) else None
    if language is None:
        raise LanguageInvalid(
            "invalid `metadata.language`: invalid language tag: "
            f"'{escape_and_truncate(tag, 40)}' is not a BCP 47 tag such as "
            "'fr' or 'pt-BR'"
        )
    name = NAMES.get(language.language or "", language.to_tag())
    if name in NAMES.values() and (language.territory or language.script):
        name = f"{name} ({language.to_tag()})"
    return (
        f"Always reply in {name}, even when the user writes in another language. "
        "Do not add translations into any other language."
    )


def _is_well_formed(tag: str) -> bool:
    return len(tag) <= MAX_LENGTH and TAG_PATTERN.fullmatch(tag) is not None


def _find_language(tag: str) -> "Language | None":
    # Here, because most requests name no language: 3 MB, and 50 ms at the start.
    from langcodes import Language
    from langcodes.tag_parser import LanguageTagError

    try:
        return Language.get(tag)
    except LanguageTagError:
        return None
    finally:
        # langcodes caches every tag it has seen, and clients choose these tags.
        Language._PARSE_CACHE.clear()
