"""A server with safety checks, and answers of their models by script."""

from typing import Any

import orjson
import yaml

from safety.models import Incident
from testing.wires import ScriptedAnswer
from tests.conftest import CONFIG


def safety_yaml(*checks: dict[str, Any], **settings: Any) -> str:
    """Return a YAML of the standard agents with these checks."""
    return CONFIG + yaml.safe_dump(
        {"safety": {"checks": list(checks), **settings}}, sort_keys=False
    )


def check(name: str = "words", when: str = "before", **fields: Any) -> dict[str, Any]:
    """Return a check by a pattern, unless `fields` say otherwise."""
    fields.setdefault("by", {"regex": {"flagged": ["forbidden"]}})
    return {"name": name, "when": when, **fields}


def control_check(**fields: Any) -> dict[str, Any]:
    """Return a check by a control model with two levels."""
    model = {"provider": "openai", "model": "control", "instructions": "Distress."}
    levels = {"concern": "The user is sad.", "crisis": "The user is in danger."}
    return check(
        **{"name": "distress", "by": {"model": model}, "levels": levels, **fields}
    )


def verdict(level: str, reason: str = "Because.") -> str:
    return orjson.dumps({"reason": reason, "level": level}).decode()


def incidents_of(user_id: Any) -> list[Incident]:
    return list(Incident.objects.filter(user_id=user_id).order_by("id"))


def script(fake: Any, control: Any, reply: Any = ("Paris.",)) -> None:
    """Answer control models with `control`, and agents with `reply`."""

    def answer(request: Any) -> ScriptedAnswer:
        if request.path.endswith("/moderations"):
            return ScriptedAnswer(raw=orjson.dumps(control))
        given = control if request.body["model"] == "control" else reply
        if isinstance(given, ScriptedAnswer):
            return given
        return ScriptedAnswer([given] if isinstance(given, str) else list(given))

    fake.default = answer
