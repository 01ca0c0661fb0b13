"""The YAML's `triggers:` list: agents that are started by a schedule, by a webhook, or
by the server's own start.

| id | what is wrong |
|---|---|
| coulisse.E601 | the name of a trigger is taken |
| coulisse.E602 | a trigger's agent does not exist |
| coulisse.E603 | two webhooks have one path |
| coulisse.E604 | a schedule never runs |
| coulisse.E605 | a webhook's `max_body_bytes` exceeds the server's |
| coulisse.E606 | a webhook has a `signature` but no secret |
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import available_timezones

from django.conf import settings
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
from triggers.scheduling import cron_schedule
from triggers.scheduling.cron_schedule import CronSchedule
from triggers.webhooks import prompt_templates
from turns.preparation import routing

MAX_NAME_LENGTH = 200
MIN_SECRET_LENGTH = 8
DEFAULT_HEADER = "Authorization"


def _check_time_zone(name: str) -> str:
    if name not in available_timezones():
        raise ValueError(
            "must be a time zone such as Europe/Lisbon"
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
    if len(text.strip()) < MIN_SECRET_LENGTH or text != text.strip():
        raise ValueError(
            f"must have at least {MIN_SECRET_LENGTH} characters, without blanks at the "
            "ends; `openssl rand -hex 32` generates one"
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
    """The fields of every trigger: agent, prompt, user and limits."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: Annotated[
        str,
        StringConstraints(
            strip_whitespace=True, min_length=1, max_length=MAX_NAME_LENGTH
        ),
        AfterValidator(_check_no_nul),
    ] = Field(description="The unique name in logs and `coulisse triggers`.")
    agent: Text = Field(description="The agent or experiment to run.")
    prompt: Text = Field(description="The message for the agent.")
    user: Annotated[Text, Field(max_length=512)] | None = Field(
        default=None,
        description="The user whose memory it uses, as in safety_identifier. A "
        "webhook's may have placeholders, like its prompt. Unset: `default_user_id`, "
        "or a user named after the type.",
    )
    thread: Annotated[Text, Field(max_length=512)] | None = Field(
        default=None,
        description="The thread of that user. A webhook's may have placeholders. "
        "Unset: the default thread.",
    )
    learns: bool = Field(
        default=False,
        description="Whether facts are extracted from the prompt, as from the user's "
        "own words.",
    )
    skip_if_running: bool = Field(
        default=False,
        description="Whether to skip a run while another one is queued or running.",
    )
    enabled: bool = Field(default=True, description="If false, it runs only manually.")

    def next_times(self, now: datetime) -> Iterator[datetime]:
        return iter(())


class CronTrigger(BaseTrigger):
    """Runs on a schedule."""

    type: Literal["cron"] = "cron"
    schedule: Expression = Field(
        description="`minute hour day-of-month month day-of-week`, optionally with the "
        "second first: `0 9 * * 1-5` is nine o'clock from Monday to Friday."
    )
    time_zone: TimeZone = Field(
        default="UTC", description="Time zone of the schedule, such as Europe/Lisbon."
    )
    catch_up: CatchUp = Field(
        default=False,
        description="Handling of ticks that were missed while no worker ran: `false` "
        "reports them, `last` runs the last one, `true` runs all, at most the last "
        "100.",
    )

    @cached_property
    def times(self) -> CronSchedule:
        return CronSchedule(self.schedule, self.time_zone)

    def next_times(self, now: datetime) -> Iterator[datetime]:
        return self.times.after(now) if self.enabled else iter(())


Signature = Literal["github", "header", "slack"]


class WebhookTrigger(BaseTrigger):
    """Runs when a sender posts to its path."""

    type: Literal["webhook"] = "webhook"
    path: Annotated[
        str,
        StringConstraints(max_length=255, pattern=r"^[A-Za-z0-9._~/-]+$"),
        AfterValidator(_check_path),
    ] = Field(description="Its unique path, under /hooks/.")
    secret: Annotated[SecretStr, AfterValidator(_check_secret)] | None = Field(
        default=None,
        description="The secret of the sender. Unset: anyone who can reach the server "
        "can run it.",
    )
    signature: Signature | None = Field(
        default=None,
        description="How the sender proves it: `header` (the default) sends the "
        "secret; `github` and `slack` sign the body with it, as these services do.",
    )
    header: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]+$")] = Field(
        default=DEFAULT_HEADER,
        description="The header for `signature: header`. Authorization contains the "
        "secret after `Bearer`, others such as X-Gitlab-Token the secret alone.",
    )
    max_body_bytes: int = Field(
        default=256 * 1024,
        ge=1,
        description="Maximum size of a body; larger ones are refused with 413.",
    )

    @property
    def is_templated(self) -> bool:
        """Whether the payload selects the agent."""
        return prompt_templates.is_template(self.agent)


class BootTrigger(BaseTrigger):
    """Runs once when the server starts."""

    type: Literal["boot"] = "boot"


def _type_of(value: Any) -> str | None:
    if isinstance(value, BaseTrigger):
        return str(getattr(value, "type", ""))
    return value.get("type") if isinstance(value, dict) else None


Shape = TypeVar("Shape", bound=BaseTrigger)
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
                f"trigger '{trigger.name}' never runs: no year has a day that matches "
                f"'{trigger.schedule}'",
                "coulisse.E604",
            )
    yield from _check_webhooks(triggers, config)


def _check_names(triggers: Triggers) -> Iterator[Problem]:
    jobs, names = settings.CELERY_BEAT_SCHEDULE, set[str]()
    for index, trigger in enumerate(triggers):
        if trigger.name in jobs or trigger.name in names:
            other = "a maintenance job" if trigger.name in jobs else "another trigger"
            yield Problem(
                ("triggers", index, "name"),
                f"{other} is already called '{trigger.name}'; rename this one",
                "coulisse.E601",
            )
        names.add(trigger.name)


def _check_webhooks(triggers: Triggers, config: Config) -> Iterator[Problem]:
    server_limit = config.get(SERVER).max_body_bytes
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
        is_set = "max_body_bytes" in trigger.model_fields_set
        if is_set and trigger.max_body_bytes > server_limit:
            yield Problem(
                (*at, "max_body_bytes"),
                f"trigger '{trigger.name}' accepts {trigger.max_body_bytes} bytes, but "
                f"the server at most {server_limit}; raise server.max_body_bytes",
                "coulisse.E605",
            )
        if trigger.secret is None and trigger.signature is not None:
            yield Problem(
                (*at, "signature"),
                f"trigger '{trigger.name}' has a 'signature' but no 'secret'; set it, "
                "or remove 'signature'",
                "coulisse.E606",
            )


def enabled_triggers(config: Config, shape: type[Shape]) -> list[Shape]:
    triggers = config.get(TRIGGERS)
    return [each for each in triggers if isinstance(each, shape) and each.enabled]


def find_webhook(config: Config, path: str) -> WebhookTrigger | None:
    """Return the enabled webhook at a path, or None."""
    webhooks = enabled_triggers(config, WebhookTrigger)
    return next((each for each in webhooks if each.path == path), None)


TRIGGERS: Section[Triggers] = Section(
    key="triggers",
    shape=Triggers,
    default=list,
    noun="trigger",
    check=check_triggers,
    fails_closed=True,
    description="turns started by a schedule, a webhook or a server start",
)
