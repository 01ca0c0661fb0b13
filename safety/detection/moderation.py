"""Checks by the moderation endpoint of a provider."""

from collections.abc import Mapping
from typing import Any

from config.sections import Config
from providers import moderation
from safety.config import SafetyCheck
from safety.detection.config import ModerationConfig
from safety.detection.verdict import Verdict
from safety.errors import CheckFailed

PART_CHARS = 20_000
"""Characters of one input; longer texts are several."""


async def moderate(
    config: Config, check: SafetyCheck, settings: ModerationConfig, text: str
) -> Verdict:
    """Return the level of a text; raises `CheckFailed` and errors of the provider."""
    name = settings.model or moderation.DEFAULT_MODEL
    if settings.provider is not None:
        name = f"{settings.provider}/{name}"
    parts = [text[n : n + PART_CHARS] for n in range(0, len(text), PART_CHARS)]
    answer = await moderation.moderate(config, name, parts)
    scores: dict[str, float] = {}
    flagged: set[str] = set()
    try:
        for result in answer["results"]:
            for category, score in _pick(settings, result["category_scores"]).items():
                scores[category] = max(float(score), scores.get(category, 0.0))
            categories = _pick(settings, result["categories"])
            flagged |= {category for category, is_set in categories.items() if is_set}
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise CheckFailed("the moderation has no categories with scores") from exc
    return _verdict(check, settings, scores, flagged)


def _pick(settings: ModerationConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    chosen = settings.categories
    return {name: values[name] for name in values if not chosen or name in chosen}


def _verdict(
    check: SafetyCheck,
    settings: ModerationConfig,
    scores: Mapping[str, float],
    flagged: set[str],
) -> Verdict:
    if not settings.scores:
        level = check.highest if flagged else ""
        return Verdict(level, ", ".join(sorted(flagged)))
    category = max(scores, key=lambda name: scores[name], default="")
    score = scores.get(category, 0.0)
    reached = [level for level in settings.scores if score >= settings.scores[level]]
    level = max(reached, key=check.severity, default="")
    return Verdict(level, f"{category} {score:.2f}")
