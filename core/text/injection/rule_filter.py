"""Filter of rules that are about more than the manner of answers.

Rules are instructions: an attacker who makes a model save one instructs it in every
later conversation. The filter sends rules to review that are about the agent's
instructions, roles, secrets, actions, safety or what answers must contain. It is
strict: a person can accept a harmless rule.
"""

from core.text.injection import deobfuscation, injection_filter, rule_patterns
from core.text.injection.injection_filter import INVISIBLE


def find_violation(rule: str, quote: str = "") -> str:
    """Return why a rule may be more than a wish about the manner, or ""."""
    if INVISIBLE.search(rule) or INVISIBLE.search(quote):
        return "contains invisible characters"
    for text in (rule, quote):
        if found := injection_filter.find_override(text):
            return f"tries to override instructions: '{found.strip()[:80]}'"
    texts = [*deobfuscation.possible_readings(rule), *deobfuscation.strip_accents(rule)]
    for text in map(injection_filter.normalize, texts):
        for subject, pattern in rule_patterns.VIOLATIONS.items():
            if found := pattern.search(text):
                return f"is about {subject}: '{found.group().strip()[:80]}'"
    return ""
