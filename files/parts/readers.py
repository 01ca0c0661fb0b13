"""Which types of files can be put into the prompt of an agent."""

from dataclasses import dataclass

from core.errors import Invalid
from files.config import MEBIBYTE
from files.parts.documents import Document
from files.types import StoredFile

PDF = "application/pdf"
AUDIO_FORMATS = {"audio/wav": "wav", "audio/mpeg": "mp3"}
MAX_PDF_BYTES = 32 * MEBIBYTE
"""The largest PDF that providers read; of a larger one, models receive the text."""
TEXT_TYPES = ("application/json", "image/svg+xml")


class FileUnsupported(Invalid):
    """This agent's model cannot read files of this type."""

    code = "unsupported_file_type"


@dataclass(frozen=True, slots=True)
class Reader:
    """An agent, and what all of its models take."""

    agent: str
    model: str
    reads_pdf: bool

    def check(self, file: StoredFile | Document) -> None:
        """Raise `FileUnsupported` for a file that cannot be read."""
        if not is_readable(file.content_type):
            raise FileUnsupported(
                f"'{file.filename}' is of type {file.content_type}, which the model "
                f"'{self.model}' of agent '{self.agent}' cannot read: send an image, "
                "a PDF or a text",
                param="messages",
            )

    def needs_text(self, file: Document) -> bool:
        """Return whether the models read the text of a file only."""
        if file.content_type == PDF:
            return not self.reads_pdf or file.size > MAX_PDF_BYTES
        return is_text(file.content_type)


def is_readable(content_type: str) -> bool:
    """Return whether content of a type can be put into a prompt."""
    is_native = content_type == PDF or content_type in AUDIO_FORMATS
    return is_native or content_type.startswith("image/") or is_text(content_type)


def is_text(content_type: str) -> bool:
    return content_type.startswith("text/") or content_type in TEXT_TYPES
