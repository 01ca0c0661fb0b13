"""Reads the text of a PDF, in a process of its own: `python -P pdf_worker.py`.

Reading can take long and much memory, and a library call cannot be interrupted. The
process limits its memory and CPU time; the parent kills it when it takes too long.

The PDF is the standard input. The first line of output is `ok`, `encrypted`, or
`damaged`; the text follows.
"""

import logging
import resource
import sys
from contextlib import suppress

MAX_MEMORY_BYTES = 1024 * 1024 * 1024
MAX_CPU_SECONDS = 20


def main(max_pages: int, max_characters: int) -> None:
    """Write the text of the first pages."""
    with suppress(ValueError, OSError):  # macOS has no limit of memory.
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    logging.disable()
    try:
        state, text = _read(max_pages, max_characters)
    except Exception:
        # The library raises whatever a damaged file leads to.
        state, text = "damaged", ""
    output = f"{state}\n{text}".encode("utf-8", "replace")
    sys.stdout.buffer.write(output)


def _read(max_pages: int, max_characters: int) -> tuple[str, str]:
    from pypdf import PdfReader

    reader = PdfReader(sys.stdin.buffer)
    if reader.is_encrypted and not reader.decrypt(""):
        return "encrypted", ""
    text = ""
    for page in reader.pages[:max_pages]:
        text += page.extract_text() + "\n\n"
        if len(text) > max_characters:
            break
    return "ok", text[:max_characters]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
