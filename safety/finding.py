"""A finding of a safety check in a turn."""

from dataclasses import dataclass

from safety.config import ActionConfig, SafetyCheck

UNCHECKED = ActionConfig(refuse="This request could not be checked. Try again later.")
ALLOWED = ActionConfig()


@dataclass(frozen=True, slots=True)
class Finding:
    """A level that a check has found, or its failure."""

    check: SafetyCheck
    level: str
    """"" if the check failed."""
    reason: str = ""
    excerpt: str = ""
    """The text around it; "" for what is masked."""

    @property
    def action(self) -> ActionConfig:
        if self.level:
            return self.check.action(self.level)
        return UNCHECKED if self.check.on_failure == "refuse" else ALLOWED

    @property
    def severity(self) -> int:
        return self.check.severity(self.level)
