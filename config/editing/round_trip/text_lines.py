"""Lines of a text: all line breaks of YAML, columns and indentation."""

import re

LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
UNCOMMON_LINE_BREAKS = "\r\x85\u2028\u2029"


def line_start(text: str, index: int) -> int:
    """Return the start of a character's line."""
    first = text.rfind("\n", 0, index) + 1
    for other in UNCOMMON_LINE_BREAKS:
        first = max(first, text.rfind(other, first, index) + 1)
    return first


def line_end(text: str, index: int) -> int:
    """Return the end of a character's line, before its line break."""
    found = LINE_BREAK.search(text, index)
    return found.start() if found else len(text)


def previous_line_end(text: str, index: int) -> int:
    """Return the end of the previous line, given a line's first character."""
    return index - (2 if text[index - 2 : index] == "\r\n" else 1)


def next_line_start(text: str, index: int) -> int:
    """Return the start of the next line; the text's end if there is none."""
    found = LINE_BREAK.search(text, index)
    return found.end() if found else len(text)


def column(text: str, index: int) -> int:
    """Return a character's column in its line."""
    return index - line_start(text, index)


def is_indent(text: str, index: int) -> bool:
    """Return whether only spaces precede a character in its line."""
    return not text[line_start(text, index) : index].strip(" ")


def line_break_style(text: str) -> str:
    """Return the line break that a text uses."""
    found = LINE_BREAK.search(text)
    return found.group() if found else "\n"


def normalize_line_breaks(text: str) -> str:
    """Return a text with `\\n` line breaks; browser forms send others."""
    return re.sub("\r\n?", "\n", text)


def indent(text: str, columns: int, *, hanging: bool = False) -> str:
    """Return a text indented; with `hanging`, except its first line."""
    pad = " " * columns
    first, *rest = text.split("\n")
    indented = [f"{pad}{line}" if line else "" for line in rest]
    return "\n".join([first if hanging or not first else f"{pad}{first}", *indented])


def dedent(text: str, columns: int) -> str:
    """Return a text dedented by up to this many columns."""
    edge = re.compile(rf"^ {{1,{columns}}}", re.MULTILINE) if columns else None
    return edge.sub("", text) if edge else text


def trailing_lines_end(text: str, index: int, edge: int) -> int:
    """Return the end of the lines that belong to a value that ends at a character.

    These are the rest of its line, and the comments below it that are indented further
    than column `edge`.
    """
    last = line_end(text, index)
    at = last
    while (at := next_line_start(text, at)) < len(text):
        stop = line_end(text, at)
        content = text[at:stop].strip(" \t")
        if content.startswith("#") and text.index("#", at) - at > edge:
            last = stop
        elif content:
            break
        at = stop
    return last
