"""Refuse wordings that readers have to read twice: `python tools/prose.py [PATH …]`.

Reads Markdown, YAML comments, the texts of templates, and the strings and comments of
Python and JavaScript, except tests, and prints one line per match: file, line, the
wording, and what to write in its place. Exits with 1 if there is a match.
"""

import html
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

WORDINGS = {
    r"(nobody|no one|whoever|somebody|anybody|whomever)('s)?": "name the actor",
    r"(anew|lest|amid|wherein|thereof|thereby|therein|hitherto)": "a plain word",
    r"(is|are|was|were|be|been) (not |never |only )?(told|said)": (
        "returns, shows, reports"
    ),
    r"(cannot|can|could|could not|to) be had": "is (not) available",
    r"of (which|whom) there (is|are|was|were)": "a sentence of its own",
    r"what (is|are|was|were) none": "a sentence of its own",
    r"(is|are|was|were) (away|no longer ours|nobody's)": "unavailable; lease lost",
    r"(is|are|was|were) (tried|done|asked|sent) again": "retries",
    r"broken off": "cancelled",
    r"(learnt|lessons?)": "extracted; extraction job",
    r"(ladder|shelf|arrears|reckon(s|ed)?)": "the field's term",
    r"mint(s|ed|ing)?": "create",
    r"(stand-ins?|trips? to the database)": "fallback; database call",
    r"(it|they|there|this|that|these|those) (is|are|was|were) to (be|have)": (
        "present tense"
    ),
    r"has (it|them|this|that|these|those) (kept|done|stored|made|told)": (
        "subject, verb, object"
    ),
}
PATTERN = re.compile(
    r"\b(?:" + "|".join(f"(?P<p{i}>{p})" for i, p in enumerate(WORDINGS)) + r")\b",
    re.IGNORECASE,
)
# "…, for it is late" reads as a purpose first; "who is late is sent …" never ends.
CLAUSES = re.compile(
    r"(?P<because>, for (?:it|they|there|this|that|these|nothing|none|each of)\b)"
    r"|(?P<subject>(?:^|[.!;:]\s)(?:Who|Whom|Whose|What) [^.?!:]*?"
    r"\b(?:is|are|was|were|has|have|does|may|can) [^.?!:]*\.(?:\s|$))"
)
REMEDIES = {"because": "because, as", "subject": "a noun as the subject"}

QUOTED = re.compile(r"`[^`]*`|^```.*?^```", re.MULTILINE | re.DOTALL)
TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>|{[%#].*?[%#]}|{{.*?}}", re.DOTALL)
JAVASCRIPT_TEXT = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`|//[^\n]*|/\*.*?\*/', re.DOTALL
)
# Titles, placeholders, and what templates pass on: `title="No active token"`.
TAG_TEXT = re.compile(r'(?<==)"[^"{}<>]* [^"{}<>]*"')
YAML_COMMENT = re.compile(r"(?:^|\s)#[^\n]*", re.MULTILINE)

Piece = tuple[int, str]
"""The number of a text's first line, and the text."""


def read_python(path: Path) -> Iterator[Piece]:
    """Yield strings that hold more than one word, and blocks of comments."""
    comment: list[str] = []
    first_line = 0
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT:
                first_line = first_line if comment else token.start[0]
                comment.append(token.string.lstrip("# "))
            elif comment and token.type != tokenize.NL:
                yield first_line, "\n".join(comment)
                comment = []
            if is_prose(token):
                yield token.start[0], token.string.strip("rbfRBF").strip("\"'")


def is_prose(token: tokenize.TokenInfo) -> bool:
    """Return whether a token is a string of several words; raw ones are patterns."""
    prefix = token.string.partition('"')[0].lower()
    return token.type == tokenize.STRING and " " in token.string and "r" not in prefix


def find_pieces(text: str, pattern: re.Pattern[str]) -> Iterator[Piece]:
    """Yield what the pattern matches."""
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group()


def blank(text: str, pattern: re.Pattern[str]) -> str:
    """Replace what the pattern matches with as many line breaks."""
    return pattern.sub(lambda match: " " + "\n" * match.group().count("\n"), text)


def read(path: Path) -> Iterator[Piece]:
    """Yield the texts of a file that people read."""
    if path.suffix == ".py":
        yield from read_python(path)
        return
    text = path.read_text()
    if path.suffix == ".md":
        yield 1, text
    elif path.suffix == ".html":
        yield 1, html.unescape(blank(text, TAGS))
        yield from find_pieces(text, TAG_TEXT)
    elif path.suffix == ".js":
        yield from find_pieces(text, JAVASCRIPT_TEXT)
    else:
        yield from find_pieces(text, YAML_COMMENT)


def check(path: Path) -> Iterator[str]:
    """Yield a line for each wording to be replaced."""
    for first_line, text in read(path):
        prose = blank(text, QUOTED)
        for pattern in (PATTERN, CLAUSES):
            for match in pattern.finditer(prose):
                line = first_line + prose.count("\n", 0, match.start())
                found = " ".join(match.group().split())
                yield f"{path}:{line}: “{found:.90}”: {remedy(match)}"


def remedy(match: re.Match[str]) -> str:
    """Say what to write in place of a match."""
    kind = match.lastgroup or ""
    return REMEDIES.get(kind) or list(WORDINGS.values())[int(kind[1:])]


def main(names: list[str]) -> int:
    """Check the named files or folders, or all that belong to the project."""
    listed = subprocess.run(
        ["git", "ls-files", "--", *names],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    found = [
        line
        for path in map(Path, listed)
        if path.suffix in (".py", ".md", ".html", ".js", ".yaml", ".yml")
        and path.parts[0] not in ("tests", "tools")
        and "migrations" not in path.parts
        and not path.stem.endswith("prompts")  # Written for models.
        for line in check(path)
    ]
    print(*found, sep="\n", end="\n" if found else "")  # noqa: T201
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
