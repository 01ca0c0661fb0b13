"""The safety checks of one turn, and what they have found so far."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from config.sections import Config
from core.ids import TurnId, UserId
from core.messages import Message
from core.trace import Call
from safety import input_messages
from safety.config import (
    FAILED,
    NO_LEVEL,
    ActionConfig,
    SafetyCheck,
    SafetyConfig,
    Stage,
)
from safety.finding import Finding
from safety.text_window import TextWindow

MAX_REASON_CHARS = 300


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
    ended: set[str] = field(default_factory=set)
    """The checks of whole texts that have ended."""
    running: list[asyncio.Task[None]] = field(default_factory=list)
    """The checks that may outlast the turn."""
    is_stored_withheld: bool = False
    """Whether the turn was stored before all checks of its input had ended."""
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
        """Add a finding, unless one of its level is known.

        Until that is stored, its reasons are added to it.
        """
        for position, known in enumerate(self.findings):
            if (known.check, known.level) != (finding.check, finding.level):
                continue
            reasons = known.reason.split(", ")
            is_short = len(known.reason) < MAX_REASON_CHARS
            is_new = finding.reason not in reasons
            if position >= self._stored and is_new and is_short:
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

    @property
    def checks_beside(self) -> list[SafetyCheck]:
        return [check for check in self.checks if check.when == "beside"]

    @property
    def is_input_refused(self) -> bool:
        """Whether a check refuses the user's message, or still may."""
        return self.is_input_pending or any(
            found.check.when != "after" and found.action.refuse is not None
            for found in self.findings
        )

    def decide_withholding(self) -> bool:
        """Return whether the turn is withheld when it is stored: now."""
        self.is_stored_withheld = self.is_input_pending
        return self.is_input_refused

    @property
    def is_input_pending(self) -> bool:
        """Whether a check that can refuse the user's message has not ended."""
        whole = [*self.checks_at("before", is_windowed=False), *self.checks_beside]
        return any(each.can_refuse and each.name not in self.ended for each in whole)

    @property
    def earlier_rules(self) -> list[SafetyCheck]:
        """The checks before the reply that apply to earlier messages, too."""
        return [
            check
            for check in self.checks
            if check.when == "before"
            and not check.by.is_remote
            and (check.refuses or check.masks)
        ]

    def mask_input(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Check the messages of the request by patterns, and return them masked."""
        checks = self.checks_at("before", is_windowed=True)
        if not checks:
            return messages
        masked, found = input_messages.mask(messages, checks)
        for finding in found:
            self.add(finding)
        return masked

    def mask_text(self, text: str, stage: Stage) -> str:
        """Return a text of a stage as others may read it."""
        checks = self.checks_at(stage, is_windowed=True)
        masking = [check for check in checks if check.masks]
        return TextWindow(masking, None).check(text) if masking else text

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
