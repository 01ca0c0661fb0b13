"""Who does what is audited."""

from access.deeds import Author

ADA = Author("command line: ada", "command line on desk")
