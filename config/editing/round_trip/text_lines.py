"""The lines of a text: any line end YAML knows, and what stands at its left edge."""

import re

LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
UNCOMMON_LINE_BREAKS = "\r\x85\u2028\u2029"


def line_start(text: str, index: int) -> int:
    """Return where the line of a character begins."""
    first = text.rfind("\n", 0, index) + 1
    for other in UNCOMMON_LINE_BREAKS:
        first = max(first, text.rfind(other, first, index) + 1)
    return first


def line_end(text: str, index: int) -> int:
    """Return where the line of a character ends, before its line end."""
    found = LINE_BREAK.search(text, index)
    return found.start() if found else len(text)


def previous_line_end(text: str, index: int) -> int:
    """Return where the line before ends, of a line's first character."""
    return index - (2 if text[index - 2 : index] == "\r\n" else 1)


def next_line_start(text: str, index: int) -> int:
    """Return where the next line begins; the text's end when there is none."""
    found = LINE_BREAK.search(text, index)
    return found.end() if found else len(text)


def column(text: str, index: int) -> int:
    """Return how far from its line's beginning a character stands."""
    return index - line_start(text, index)


def is_indent(text: str, index: int) -> bool:
    """Tell whether nothing but spaces stands before a character in its line."""
    return not text[line_start(text, index) : index].strip(" ")


def line_break_style(text: str) -> str:
    """Return how the lines of a text end."""
    found = LINE_BREAK.search(text)
    return found.group() if found else "\n"


def normalize_line_breaks(text: str) -> str:
    """Return a text whose lines end in `\\n`, as browsers' forms do not send it."""
    return re.sub("\r\n?", "\n", text)


def indent(text: str, columns: int, *, hanging: bool = False) -> str:
    """Return a text further to the right; its first line not if it is `hanging`."""
    pad = " " * columns
    first, *rest = text.split("\n")
    moved = [f"{pad}{line}" if line else "" for line in rest]
    return "\n".join([first if hanging or not first else f"{pad}{first}", *moved])


def dedent(text: str, columns: int) -> str:
    """Return a text as many columns to the left, or as far as its lines can go."""
    edge = re.compile(rf"^ {{1,{columns}}}", re.MULTILINE) if columns else None
    return edge.sub("", text) if edge else text


def trailing_lines_end(text: str, index: int, edge: int) -> int:
    """Return where the lines end that belong to what ends at a character.

    These are the rest of its line, and comments below it that stand further right
    than column `edge`.
    """
    last = line_end(text, index)
    at = last
    while (at := next_line_start(text, at)) < len(text):
        stop = line_end(text, at)
        bare = text[at:stop].strip(" \t")
        if bare.startswith("#") and text.index("#", at) - at > edge:
            last = stop
        elif bare:
            break
        at = stop
    return last
