"""The YAML's `triggers:` list: agents that are started by a clock, by a webhook, or by
the server's own start.

| id | what is wrong |
|---|---|
| coulisse.E601 | two triggers have one name |
| coulisse.E602 | a trigger's agent does not exist |
| coulisse.E603 | two webhooks have one path |
| coulisse.E604 | a schedule never fires |
| coulisse.E605 | a webhook takes more than the server does |
| coulisse.E606 | a webhook says how it is signed, and has no secret |
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Any, Literal
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    SecretStr,
    StringConstraints,
    Tag,
)

from config.config import SERVER
from config.sections import Config, Problem, Section
from config.validation.suggestions import did_you_mean
from tasks.config import TASKS
from triggers.scheduling import cron_schedule
from triggers.scheduling.cron_schedule import CronSchedule
from triggers.webhooks import prompt_templates
from turns.preparation import routing

NAME_CHARS = 200
MIN_SECRET_CHARS = 8
DEFAULT_HEADER = "Authorization"


def _check_time_zone(name: str) -> str:
    if name not in available_timezones():
        raise ValueError(
            "must be the name of a time zone such as Europe/Lisbon"
            f"{did_you_mean(name, sorted(available_timezones()))}"
        )
    return name


def _check_path(path: str) -> str:
    steps = path.split("/")[2:]
    if not path.startswith("/hooks/") or not all(steps) or {".", ".."} & {*steps}:
        raise ValueError("must be a path under /hooks/, such as /hooks/build")
    return path


def _check_secret(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if len(text.strip()) < MIN_SECRET_CHARS or text != text.strip():
        raise ValueError(
            f"must have at least {MIN_SECRET_CHARS} characters and no blanks around "
            "them; `openssl rand -hex 32` makes one"
        )
    return secret


def _check_no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("must not contain NUL characters")
    return text


def _check_catch_up(value: Any) -> Any:
    if not isinstance(value, bool) and value != "last":
        raise ValueError("must be true, false or last")
    return value


Text = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1),
    AfterValidator(_check_no_nul),
]
CatchUp = Annotated[bool | Literal["last"], BeforeValidator(_check_catch_up)]
Expression = Annotated[
    str,
    StringConstraints(max_length=255),
    AfterValidator(cron_schedule.validate_expression),
]
TimeZone = Annotated[str, AfterValidator(_check_time_zone)]


class BaseTrigger(BaseModel):
    """What every trigger says: which agent is told what, and as whom."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=NAME_CHARS),
        AfterValidator(_check_no_nul),
    ] = Field(description="What logs and `manage.py triggers` call it. Unique.")
    agent: Text = Field(description="The agent or experiment that works.")
    prompt: Text = Field(description="What it is told.")
    user: Annotated[Text, Field(max_length=512)] | None = Field(
        default=None,
        description="Whose memory it works with, as clients send it in "
        "safety_identifier; a webhook's may have places, as its prompt. Unset: "
        "`default_user_id`, or a user named after the type.",
    )
    thread: Annotated[Text, Field(max_length=512)] | None = Field(
        default=None,
        description="Which of that user's threads it is said in; a webhook's may have "
        "places, too. Unset: their default one.",
    )
    learns: bool = Field(
        default=False,
        description="Whether facts are learnt from what it is told, as if the user had "
        "said so.",
    )
    skip_if_running: bool = Field(
        default=False,
        description="Whether it is left out while a run of it is queued or running.",
    )
    enabled: bool = Field(default=True, description="Off, it fires by command alone.")


class CronTrigger(BaseTrigger):
    """Fires by the clock."""

    type: Literal["cron"] = "cron"
    schedule: Expression = Field(
        description="`minute hour day-of-month month day-of-week`, or with the second "
        "before them: `0 9 * * 1-5` is nine o'clock from Monday to Friday."
    )
    time_zone: TimeZone = Field(
        default="UTC", description="Whose clock that is, such as Europe/Lisbon."
    )
    catch_up: CatchUp = Field(
        default=False,
        description="What becomes of ticks that were missed while nothing ran: `false` "
        "reports them, `last` runs the last of them, `true` each, at most the last "
        "100.",
    )

    @cached_property
    def times(self) -> CronSchedule:
        """The parsed schedule."""
        return CronSchedule(self.schedule, self.time_zone)


Signature = Literal["github", "header", "slack"]


class WebhookTrigger(BaseTrigger):
    """Fires when something is posted to its path."""

    type: Literal["webhook"] = "webhook"
    path: Annotated[
        str,
        StringConstraints(max_length=255, pattern=r"^[A-Za-z0-9._~/-]+$"),
        AfterValidator(_check_path),
    ] = Field(description="Where: a path under /hooks/, unique.")
    secret: Annotated[SecretStr, AfterValidator(_check_secret)] | None = Field(
        default=None,
        description="What who posts must know. Unset, everybody who reaches the server "
        "can fire it.",
    )
    signature: Signature | None = Field(
        default=None,
        description="How they show it. `header` (the default) sends it; `github` and "
        "`slack` sign the body with it, as these two do.",
    )
    header: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]+$")] = Field(
        default=DEFAULT_HEADER,
        description="For `signature: header`: in which header, after `BearerAuth` in "
        "Authorization and alone in others, such as X-Gitlab-Token.",
    )
    max_body_bytes: int = Field(
        default=256 * 1024,
        ge=1,
        description="The largest body; a larger one is answered with 413.",
    )

    @property
    def is_templated(self) -> bool:
        """Whether the payload selects the agent."""
        return prompt_templates.is_template(self.agent)


class BootTrigger(BaseTrigger):
    """Fires once when the server starts."""

    type: Literal["boot"] = "boot"


def _type_of(value: Any) -> str | None:
    if isinstance(value, BaseTrigger):
        return str(getattr(value, "type", ""))
    return value.get("type") if isinstance(value, dict) else None


AnyTrigger = CronTrigger | WebhookTrigger | BootTrigger
Triggers = list[
    Annotated[
        Annotated[CronTrigger, Tag("cron")]
        | Annotated[WebhookTrigger, Tag("webhook")]
        | Annotated[BootTrigger, Tag("boot")],
        Discriminator(
            _type_of,
            custom_error_type="trigger_type",
            custom_error_message="'type' must be boot, cron or webhook",
        ),
    ]
]


def check_triggers(triggers: Triggers, config: Config) -> Iterable[Problem]:
    """Report duplicate names or paths, unknown agents, schedules that never run."""
    yield from _check_names(triggers)
    for index, trigger in enumerate(triggers):
        is_open = isinstance(trigger, WebhookTrigger) and trigger.is_templated
        if not is_open and not routing.exists(config, trigger.agent):
            hint = did_you_mean(trigger.agent, routing.list_names(config))
            yield Problem(
                ("triggers", index, "agent"),
                f"trigger '{trigger.name}' starts agent '{trigger.agent}', which does "
                f"not exist{hint}",
                "coulisse.E602",
            )
        if isinstance(trigger, CronTrigger) and not trigger.times.is_possible:
            yield Problem(
                ("triggers", index, "schedule"),
                f"trigger '{trigger.name}' never fires: no year has a day of "
                f"'{trigger.schedule}'",
                "coulisse.E604",
            )
    yield from _check_webhooks(triggers, config)


def _check_names(triggers: Triggers) -> Iterator[Problem]:
    named: set[str] = set()
    for index, trigger in enumerate(triggers):
        if trigger.name in named:
            yield Problem(
                ("triggers", index, "name"),
                f"another trigger is already called '{trigger.name}'; rename one",
                "coulisse.E601",
            )
        named.add(trigger.name)


def _check_webhooks(triggers: Triggers, config: Config) -> Iterator[Problem]:
    most = config.get(SERVER).max_body_bytes
    paths: dict[str, str] = {}
    for index, trigger in enumerate(triggers):
        if not isinstance(trigger, WebhookTrigger):
            continue
        at = ("triggers", index)
        if trigger.path in paths:
            yield Problem(
                (*at, "path"),
                f"trigger '{trigger.name}' has the path of '{paths[trigger.path]}', "
                f"{trigger.path}; change one",
                "coulisse.E603",
            )
        paths.setdefault(trigger.path, trigger.name)
        if trigger.max_body_bytes > most and "max_body_bytes" in (
            trigger.model_fields_set
        ):
            yield Problem(
                (*at, "max_body_bytes"),
                f"trigger '{trigger.name}' takes {trigger.max_body_bytes} bytes, and "
                f"the server {most} at most; raise server.max_body_bytes",
                "coulisse.E605",
            )
        if trigger.secret is None and trigger.signature is not None:
            yield Problem(
                (*at, "signature"),
                f"trigger '{trigger.name}' says how it is signed and has no 'secret'; "
                "set it, or remove 'signature'",
                "coulisse.E606",
            )


def cron_triggers(config: Config) -> list[CronTrigger]:
    """Return the enabled crons."""
    if not config.get(TASKS).enabled:
        return []
    return [
        trigger
        for trigger in config.get(TRIGGERS)
        if isinstance(trigger, CronTrigger) and trigger.enabled
    ]


def boot_triggers(config: Config) -> list[BootTrigger]:
    """Return the enabled triggers of server starts."""
    if not config.get(TASKS).enabled:
        return []
    return [
        trigger
        for trigger in config.get(TRIGGERS)
        if isinstance(trigger, BootTrigger) and trigger.enabled
    ]


def find_webhook(config: Config, path: str) -> WebhookTrigger | None:
    """Return the enabled webhook at a path, or None."""
    for trigger in config.get(TRIGGERS):
        if (
            isinstance(trigger, WebhookTrigger)
            and trigger.path == path
            and trigger.enabled
        ):
            return trigger
    return None


TRIGGERS: Section[Triggers] = Section(
    key="triggers",
    shape=Triggers,
    default=list,
    noun="trigger",
    check=check_triggers,
)
