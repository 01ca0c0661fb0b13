"""What prevents an import."""

from core.errors import Invalid


class SourceUnreadable(Invalid):
    """The file or directory to import cannot be read."""
