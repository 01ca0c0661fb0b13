"""`coulisse token`: create, list and revoke API tokens."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from access.audit import audit_events
from access.authentication.config import AUTH
from access.limits import dollars
from access.models import ApiToken, BudgetPeriod
from access.schemas import StudioToken
from access.tokens import api_tokens, formatting, token_scope
from access.users.caller import CLIENT_USERS
from config import live
from config.errors import ConfigInvalid
from config.management import config_option
from config.management.database_command import DatabaseCommand
from config.sections import Config
from core.history import CHOICES
from core.text import time_parsing


class Command(DatabaseCommand):
    """Prints a new secret once, on stdout; all other text goes to stderr."""

    help = "Create, list and revoke API tokens for /v1."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add = config_option.add_subcommands(parser)
        _declare_create(add("create", "Create a token and print its secret once."))
        _declare_list(add("list", "List tokens with their spending, newest first."))
        _declare_revoke(add("revoke", "Revoke a token."))

    def handle(self, **options: Any) -> None:
        match options["what"]:
            case "create":
                self._create(options)
            case "list":
                self._list(options)
            case "revoke":
                self._revoke(options)

    def _create(self, options: dict[str, Any]) -> None:
        now = datetime.now(UTC)
        config = self._config(options)
        agents = options["agent"] or None
        if config is not None:
            token_scope.check_agents(agents or (), config)
        row, secret = api_tokens.create_token(
            options["label"],
            options["principal"],
            budget=options["budget"],
            limit_micro_usd=_parse_limit(options["limit"]),
            expires_at=_parse_expiry(options["expires"], now),
            agents=agents,
            history=options["history"],
            client_users=options["client_users"],
            by=audit_events.terminal_actor(),
            now=now,
        )
        self.write_note(f"created token {formatting.describe_token(row)}")
        if config is not None and not config.get(AUTH).requires_tokens:
            self.write_note(
                "/v1 does not require tokens yet: set 'auth: {proxy: {tokens: {}}}' in "
                "the YAML"
            )
        self.stdout.write(secret)

    def _list(self, options: dict[str, Any]) -> None:
        now = datetime.now(UTC)
        rows = (
            ApiToken.objects.all() if options["all"] else ApiToken.objects.active(now)
        )
        tokens = rows.with_usage(now)
        if options["json"]:
            shapes = [StudioToken.model_validate(token) for token in tokens]
            self.write_json([shape.model_dump() for shape in shapes])
            return
        is_empty = True
        for token in tokens:
            self.stdout.write(formatting.token_line(token))
            is_empty = False
        if is_empty:
            self.write_note("no tokens" if options["all"] else "no active tokens")

    def _revoke(self, options: dict[str, Any]) -> None:
        row, is_new = api_tokens.revoke(options["id"], by=audit_events.terminal_actor())
        if is_new:
            self.stdout.write(f"revoked {formatting.token_name(row)}")
        else:
            self.stdout.write(
                f"{formatting.token_name(row)} was already revoked on "
                f"{row.revoked_at:%Y-%m-%d %H:%M:%S}"
            )

    def _config(self, options: dict[str, Any]) -> Config | None:
        """Return the configuration; tokens can be created without a valid one, too."""
        try:
            return live.read_effective(self.config_path(options))
        except ConfigInvalid as exc:
            self.write_note(
                f"the YAML is invalid, so agent names are not checked: {exc}"
            )
            return None


def _declare_create(parser: ArgumentParser) -> None:
    parser.add_argument(
        "label", metavar="LABEL", help="The purpose of the token: laptop, ci."
    )
    parser.add_argument(
        "--principal",
        metavar="USER",
        required=True,
        help="The user of its requests, by safety_identifier or UUID.",
    )
    parser.add_argument(
        "--budget",
        choices=BudgetPeriod.values,
        default=BudgetPeriod.UNLIMITED.value,
        help="unlimited (the default), or --limit in total or per calendar month "
        "(UTC).",
    )
    parser.add_argument(
        "--limit", metavar="USD", help="The budget in dollars, such as 20 or 0.50."
    )
    parser.add_argument(
        "--expires",
        metavar="WHEN",
        default="never",
        help="A date (2026-12-31, end of the day in UTC), a time from now (90d, 12h), "
        "or never (the default).",
    )
    parser.add_argument(
        "--agent",
        metavar="NAME",
        action="append",
        help="An agent that it may call; repeatable (default: all agents).",
    )

    parser.add_argument(
        "--history",
        choices=CHOICES,
        default="",
        help="How the messages of its requests are read (default: as the agent says).",
    )
    parser.add_argument(
        "--client-users",
        choices=CLIENT_USERS,
        default="refuse",
        help="Other users that its requests name: refuse them (the default), ignore "
        "them, or keep the data of each separate, as of PRINCIPAL/NAME.",
    )


def _declare_list(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--all", action="store_true", help="Include revoked and expired tokens."
    )
    parser.add_argument("--json", action="store_true", help="Print JSON.")


def _declare_revoke(parser: ArgumentParser) -> None:
    parser.add_argument(
        "id", metavar="ID", help="The id of the token, or a unique prefix of it."
    )


def _parse_limit(text: str | None) -> int | None:
    return None if text is None else dollars.parse_usd(text)


def _parse_expiry(text: str, now: datetime) -> datetime | None:
    return None if text == "never" else time_parsing.parse_future(text, now)
