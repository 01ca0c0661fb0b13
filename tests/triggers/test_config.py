"""The `triggers:` section: defaults, errors and warnings."""

from pathlib import Path

import pytest
from django.conf import settings
from django.core.checks import run_checks

from config.errors import ConfigInvalid
from config.loading import loader
from triggers import checks
from triggers.config import TRIGGERS

YAML = """
providers: {openai: {api_key: x}}
agents: [{name: pm, provider: openai, model: gpt-test}]
"""


def load(*entries: str, more: str = ""):
    listed = "".join(f"  - {{{entry}}}\n" for entry in entries)
    text = f"{YAML}{more}\ntriggers:\n{listed}"
    return loader.parse_config(text.encode(), Path("c.yaml"))


def refused(*entries: str, more: str = "") -> list[tuple[str, str]]:
    with pytest.raises(ConfigInvalid) as raised:
        load(*entries, more=more)
    return [(problem.code, problem.message) for problem in raised.value.problems]


def cron(more: str = "", name: str = "a", schedule: str = "0 9 * * *") -> str:
    return f"name: {name}, type: cron, schedule: '{schedule}', agent: pm, prompt: x" + (
        f", {more}" if more else ""
    )


def hook(more: str = "", name: str = "a", path: str = "/hooks/a") -> str:
    return f"name: {name}, type: webhook, path: {path}, prompt: x" + (
        f", {more}" if "agent:" in more else f", agent: pm{', ' if more else ''}{more}"
    )


def test_omitted_fields_have_defaults():
    (trigger,) = load(cron()).get(TRIGGERS)
    assert (trigger.time_zone, trigger.catch_up, trigger.enabled) == (
        "UTC",
        False,
        True,
    )
    assert (trigger.skip_if_running, trigger.user, trigger.learns) == (
        False,
        None,
        False,
    )
    (trigger,) = load(hook()).get(TRIGGERS)
    assert (trigger.max_body_bytes, trigger.secret) == (256 * 1024, None)


@pytest.mark.parametrize(
    ("entries", "code", "expected"),
    [
        ([cron(), cron()], "E601", "another trigger is already called 'a'"),
        (
            [cron(name=next(iter(settings.CELERY_BEAT_SCHEDULE)))],
            "E601",
            "a maintenance job is already called",
        ),
        (["name: a, type: boot, agent: pmm, prompt: x"], "E602", "did you mean 'pm'?"),
        (["name: a, type: boot, agent: '{{x}}', prompt: x"], "E602", "does not exist"),
        ([hook("agent: nobody")], "E602", "agent 'nobody', which does not exist"),
        ([hook(), hook(name="b")], "E603", "has the path of 'a', /hooks/a"),
        ([cron(schedule="0 0 30 2 *")], "E604", "'a' never runs"),
        ([hook("max_body_bytes: 9999999")], "E605", "raise server.max_body_bytes"),
        ([hook("signature: slack")], "E606", "but no 'secret'"),
        ([cron(schedule="0 9 * *")], "E009", "this has 4 fields"),
        ([cron("time_zone: Europe/Lisboa")], "E009", "did you mean 'Europe/Lisbon'?"),
        ([cron("catch_up: some")], "E009", "must be true, false or last"),
        ([cron("catch_up: 1")], "E009", "must be true, false or last"),
        ([cron("retries: 3")], "E011", "'retries' is not a known field"),
        ([hook(path="/v1/a")], "E009", "must be a path under /hooks/"),
        ([hook(path="/hooks/")], "E009", "must be a path under /hooks/"),
        ([hook(path="/hooks/../v1")], "E009", "must be a path under /hooks/"),
        ([hook(path="/hooks/a//b")], "E009", "must be a path under /hooks/"),
        ([cron('thread: "a\\0"')], "E009", "has a NUL character"),
        ([cron(name='"a\\0"')], "E009", "has a NUL character"),
        ([hook("secret: short")], "E009", "at least 8 characters"),
        (
            ["name: a, type: mail, agent: pm, prompt: x"],
            "E009",
            "boot, cron or webhook",
        ),
        (["name: a, agent: pm, prompt: x"], "E009", "boot, cron or webhook"),
        (["name: a, type: boot, agent: pm"], "E010", "'prompt' is missing"),
    ],
)
def test_invalid_trigger_is_refused(entries: list[str], code: str, expected: str):
    ((raised, message),) = refused(*entries)
    assert raised == f"coulisse.{code}"
    assert expected in message


def test_secret_is_not_in_error_messages():
    ((_, message),) = refused(hook("secret: ' hunter2222 '"))
    assert "hunter2222" not in message


def test_templated_agent_is_not_checked_in_advance():
    assert load(hook("agent: '{{agent}}'")).get(TRIGGERS)


def test_trigger_may_start_an_experiment():
    more = (
        "experiments: [{name: split-test, strategy: split, "
        "variants: [{agent: pm, weight: 1}]}]"
    )
    entry = "name: a, type: boot, agent: split-test, prompt: x"
    assert load(entry, more=more).get(TRIGGERS)


def test_public_webhook_without_a_secret_is_warned_about():
    secret = "secret: long-enough-secret"
    triggers = [
        hook(),
        hook(secret, "b", "/hooks/b"),
        hook("enabled: false", "c", "/hooks/c"),
    ]
    assert checks.open_webhooks(load(*triggers)) == ["a"]
    assert checks.open_webhooks(load(*triggers, more="server: {bind: 127.0.0.1}")) == []


@pytest.mark.database
@pytest.mark.usefixtures("database")
def test_guessable_webhook_secret_is_warned_about(tmp_path: Path, settings):
    random, guessable = "9f86d081884c7d659a2feaa0c55ad015", "correct-horse-battery"
    triggers = [
        hook(f"secret: {guessable}"),
        hook(f"secret: {random}", "b", "/hooks/b"),
        hook(f"secret: {guessable}, enabled: false", "c", "/hooks/c"),
    ]
    assert checks.guessable_webhooks(load(*triggers)) == ["a"]
    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    entry = f"{{{hook(f'secret: {guessable}')}}}"
    settings.COULISSE_CONFIG.write_text(f"{YAML}\ntriggers:\n  - {entry}\n")
    ((code, message),) = warnings()
    assert code == "coulisse.W602"
    assert "the secret of trigger 'a' can be guessed" in message
    assert guessable not in message


@pytest.mark.database
@pytest.mark.usefixtures("database")
def test_configuration_check_reports_warnings(tmp_path: Path, settings):
    settings.COULISSE_CONFIG = tmp_path / "coulisse.yaml"
    assert warnings() == []
    settings.COULISSE_CONFIG.write_text(f"{YAML}\ntriggers:\n  - {{{hook()}}}\n")
    ((code, message),) = warnings()
    assert code == "coulisse.W601"
    assert "trigger 'a' has no secret" in message
    settings.COULISSE_CONFIG.write_text("agents: 3")
    assert warnings() == []


def warnings() -> list[tuple[str, str]]:
    raised = run_checks()
    return [(f.id, f.msg) for f in raised if f.id.startswith("coulisse.W6")]
