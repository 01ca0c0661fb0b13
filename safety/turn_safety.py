"""The safety checks of one turn, and what they have found so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from config.sections import Config
from core.ids import TurnId, UserId
from core.messages import Content, Message
from core.trace import Call
from safety.config import (
    FAILED,
    NO_LEVEL,
    ActionConfig,
    SafetyCheck,
    SafetyConfig,
    Stage,
)
from safety.text_window import Found, TextWindow

UNCHECKED = ActionConfig(refuse="This request could not be checked. Try again later.")
ALLOWED = ActionConfig()
MAX_REASON = 300
CHECKED_ROLES = ("user", "tool")


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


@dataclass(frozen=True, slots=True)
class CheckedTurn:
    """The turn that is checked, as incidents name it."""

    agent: str
    turn_id: TurnId
    user_id: UserId
    thread: str
    is_incognito: bool


@dataclass(slots=True)
class TurnSafety:
    config: Config
    settings: SafetyConfig
    checks: Sequence[SafetyCheck]
    turn: CheckedTurn
    record: list[Call] = field(default_factory=list)
    """The calls of the turn; those of control models are added to it."""
    findings: list[Finding] = field(default_factory=list)
    session: dict[str, str] = field(default_factory=dict)
    """The highest level of each check in the thread's session."""
    _stored: int = 0

    def checks_at(self, stage: Stage, *, is_windowed: bool) -> list[SafetyCheck]:
        return [
            check
            for check in self.checks
            if check.when == stage and check.by.is_windowed is is_windowed
        ]

    def add(self, finding: Finding) -> None:
        """Add a finding; further ones of its level only add their reason."""
        for position, known in enumerate(self.findings):
            if (known.check, known.level) == (finding.check, finding.level):
                reasons = known.reason.split(", ")
                if finding.reason not in reasons and len(known.reason) < MAX_REASON:
                    reason = ", ".join([*reasons, finding.reason])
                    self.findings[position] = replace(known, reason=reason)
                return
        self.findings.append(finding)

    def take_unstored(self) -> list[Finding]:
        """Return the findings since the last call."""
        found = self.findings[self._stored :]
        self._stored = len(self.findings)
        return found

    @property
    def decision(self) -> Finding | None:
        """What ends the reply: the first such check of the file."""
        return self._first(lambda action: action.ends_reply)

    @property
    def hand_over(self) -> str | None:
        """The agent that answers instead."""
        found = self._first(lambda action: action.hand_over is not None)
        return None if found is None else found.action.hand_over

    def _first(self, has: Callable[[ActionConfig], bool]) -> Finding | None:
        found = [each for each in self.findings if has(each.action)]
        order = list(self.checks)
        return min(found, key=lambda each: order.index(each.check), default=None)

    @property
    def instructions(self) -> list[str]:
        actions = [finding.action for finding in self.findings]
        return [action.instruct for action in actions if action.instruct]

    def mask_input(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Check the new messages by patterns, and return all messages masked.

        Clients that send the conversation send again what was masked in earlier turns.
        """
        checks = self.checks_at("before", is_windowed=True)
        roles = [message.role for message in messages]
        start = (
            len(roles) - roles[::-1].index("assistant") if "assistant" in roles else 0
        )
        masking = [check for check in checks if check.masks]
        earlier = [_mask(message, masking)[0] for message in messages[:start]]
        for message in messages[start:]:
            masked, found = _mask(message, checks)
            earlier.append(masked)
            for each in found:
                self.add(Finding(*each))
        return earlier

    def results(self) -> dict[str, str]:
        """Return the level of each check of this turn; `none` without a finding."""
        levels = dict.fromkeys((check.name for check in self.checks), NO_LEVEL)
        for finding in sorted(self.findings, key=lambda each: each.severity):
            levels[finding.check.name] = finding.level or FAILED
        return levels

    def summary(self) -> dict[str, Any]:
        """Return the results as the response contains them."""
        levels = self.results()
        actions = {name for each in self.findings for name in each.action.names}
        return {
            "levels": levels,
            "session": {check.name: self._highest(check) for check in self.checks},
            "actions": sorted(actions - {"webhook"}),
        }

    def _highest(self, check: SafetyCheck) -> str:
        found = [each.level for each in self.findings if each.check is check]
        levels = [*found, self.session.get(check.name, "")]
        return max(levels, key=check.severity) or NO_LEVEL


def _mask(
    message: Message, checks: Sequence[SafetyCheck]
) -> tuple[Message, Sequence[Found]]:
    """Return a message whose texts are masked, and what was found in them."""
    content = message.content
    if message.role not in CHECKED_ROLES or content is None or not checks:
        return message, ()
    window = TextWindow(checks, None)

    def mask(text: str) -> str:
        return window.add(text) + window.flush()

    if isinstance(content, str):
        masked: Content = mask(content)
    else:
        masked = [
            {**part, "text": mask(part["text"])} if part.get("type") == "text" else part
            for part in content
        ]
    return replace(message, content=masked), window.take_found()
