"""Who does what is audited."""

from access.audit.audit_events import Author

ADA = Author("command line: ada", "command line on desk")
