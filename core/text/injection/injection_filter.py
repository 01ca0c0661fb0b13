"""Filter of extracted facts that concern the assistant or contain instructions.

Prompts contain facts about the user. So an attacker who makes the extraction model
store an instruction would have it followed in every later conversation. The filter
sends such a fact to review: a person can see it, prompts do not contain it. It uses
rules instead of a model, because the model is the target of the attack. The rules are
strict: a fact is about the user, in the third person, and needs no imperative.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import re2

from core.text.injection import deobfuscation
from core.text.injection import instruction_patterns as patterns

INVISIBLE = re.compile("[\U000e0000-\U000e007f\u202a-\u202e\u2066-\u2069]")
"""Invisible characters, and characters that change the direction of text."""
SENTENCE_END = re.compile(r"(?<=[.!?。！？]\s)|(?<=[。！？\n])")  # noqa: RUF001


def is_about_assistant(content: str) -> bool:
    """Whether a fact is about the assistant instead of the user."""
    texts = deobfuscation.possible_readings(content)
    return any(patterns.ABOUT_ASSISTANT.search(normalize(text)) for text in texts)


def find_injection(content: str, quote: str) -> str:
    """Return why a fact may be a disguised instruction, or "" if it seems harmless.

    The user's own words may contain any request. They are only suspicious if they try
    to override the assistant's instructions.
    """
    if INVISIBLE.search(content) or INVISIBLE.search(quote):
        return "contains invisible characters"
    if found := _first_match(
        _find_instruction, _iter_readings(content)
    ) or _find_hidden_instruction(content):
        return f"looks like an instruction: '{found.strip()[:80]}'"
    if found := find_override(quote):
        return f"quotes text that looks like an instruction: '{found.strip()[:80]}'"
    return ""


def find_override(text: str) -> str:
    """Return the part of a text that overrides the assistant's instructions, or "".

    Checks the first `deobfuscation.MAX_LENGTH` characters.
    """
    texts = map(normalize, deobfuscation.possible_readings(text))
    return _first_match(
        partial(_match_text, patterns.OVERRIDES), texts
    ) or _find_hidden_instruction(text)


def remove_instructions(text: str) -> str:
    """Return a text without sentences that instruct an assistant.

    For texts that report a conversation, such as summaries.
    """
    sentences = SENTENCE_END.split(INVISIBLE.sub("", text))
    return "".join(s for s in sentences if not _is_instruction(s))


def _is_instruction(sentence: str) -> bool:
    if len(sentence) > deobfuscation.MAX_LENGTH:
        return True  # Longer than the checked length, so not a sentence.
    readings = map(normalize, deobfuscation.possible_readings(sentence))
    return bool(
        _first_match(_find_instruction, readings) or _find_hidden_instruction(sentence)
    )


def _first_match(find: Callable[[str], str], texts: Iterable[str]) -> str:
    return next(filter(None, map(find, texts)), "")


def _iter_readings(content: str) -> Iterator[str]:
    """Yield the readings of a text: whole, and by line and sentence."""
    for text in deobfuscation.possible_readings(content):
        yield normalize(text)
        parts = [s for line in text.splitlines() for s in SENTENCE_END.split(line)]
        if len(parts) > 1:
            yield from map(normalize, parts)


def _find_instruction(text: str) -> str:
    """Return the part of a plain text that is an instruction, or ""."""
    return (
        _match_text(patterns.OVERRIDES, text)
        or _match_text(patterns.COMMANDS, text)
        or _find_format_request(text)
    )


def _find_format_request(text: str) -> str:
    """Return the preference that prescribes the content of replies, or ""."""
    found = patterns.PREFERENCES.search(text)
    if found is None:
        return ""
    form = found["form"]
    is_harmless = form is not None and patterns.HARMLESS_FORM.fullmatch(form)
    return "" if is_harmless else found.group()


def _find_hidden_instruction(text: str) -> str:
    """Return the same if accents or separated letters hide it, or ""."""
    bare = map(normalize, deobfuscation.strip_accents(text))
    return _first_match(partial(_match_text, patterns.OVERRIDES), bare) or _first_match(
        partial(_match_text, patterns.UNSPACED), deobfuscation.find_spaced_letters(text)
    )


def _match_text(pattern: re2._Regexp, text: str) -> str:
    found = pattern.search(text)
    return str(found.group()) if found else ""


def normalize(text: str) -> str:
    """Return a text in lower case, with single spaces between words."""
    return " ".join(text.casefold().split())
