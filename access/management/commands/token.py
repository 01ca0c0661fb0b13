"""`manage.py token`: create, list and revoke API tokens."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from access.audit import audit_events
from access.authentication.config import AUTH
from access.limits import dollars
from access.models import BudgetPeriod
from access.tokens import api_tokens, formatting, token_queries, token_scope
from config import live
from config.errors import ConfigInvalid
from config.management import config_option
from config.management.database_command import DatabaseCommand
from config.sections import Config
from core.text import time_parsing


class Command(DatabaseCommand):
    """Prints a new secret once, on stdout; all other text goes to stderr."""

    help = "Create, list and revoke the API tokens that open /v1."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        add = config_option.add_subcommands(parser)
        _declare_create(add("create", "Make a token and print its secret, once."))
        _declare_list(add("list", "List tokens and what they spent, the newest first."))
        _declare_revoke(add("revoke", "Have a token be refused from now on."))

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
            by=audit_events.terminal_actor(),
            now=now,
        )
        self.say(f"created token {formatting.describe_token(row)}")
        if config is not None and not are_tokens_required(config):
            self.say(
                "It opens nothing yet, for /v1 asks for no token: set "
                "'auth: {proxy: {tokens: {}}}' in the YAML"
            )
        self.stdout.write(secret)

    def _list(self, options: dict[str, Any]) -> None:
        now = datetime.now(UTC)
        found = token_queries.iterate_tokens(now=now, is_all=options["all"])
        if options["json"]:
            self.write_json([formatting.as_json(each) for each in found])
            return
        is_empty = True
        for each in found:
            self.stdout.write(formatting.token_line(each))
            is_empty = False
        if is_empty:
            self.say("there is no token" if options["all"] else "no token is active")

    def _revoke(self, options: dict[str, Any]) -> None:
        row, is_new = api_tokens.revoke(options["id"], by=audit_events.terminal_actor())
        if is_new:
            self.stdout.write(f"revoked {formatting.token_name(row)}")
        else:
            since = f"{row.revoked_at:%Y-%m-%d %H:%M:%S}"
            self.stdout.write(
                f"{formatting.token_name(row)} was revoked on {since} already"
            )

    def _config(self, options: dict[str, Any]) -> Config | None:
        """Return the configuration; tokens can be created without a valid one, too."""
        try:
            return live.read_effective(self.config_path(options))
        except ConfigInvalid as exc:
            self.say(f"the YAML cannot be read, so nothing is compared with it: {exc}")
            return None


def _declare_create(parser: ArgumentParser) -> None:
    """Declare the arguments of `create`."""
    parser.add_argument("label", metavar="LABEL", help="What it is for: laptop, ci.")
    parser.add_argument(
        "--principal",
        metavar="P",
        required=True,
        help="The user its requests belong to, as clients would send it in "
        "safety_identifier.",
    )
    parser.add_argument(
        "--budget",
        choices=BudgetPeriod.values,
        default=BudgetPeriod.UNLIMITED.value,
        help="What it may spend: all it likes (the default), --limit in all, or "
        "--limit in each calendar month (UTC).",
    )
    parser.add_argument("--limit", metavar="USD", help="As 20 or 0.50.")
    parser.add_argument(
        "--expires",
        metavar="WHEN",
        default="never",
        help="2026-12-31 (at the end of the day, UTC), 90d, 12h or never, the default.",
    )
    parser.add_argument(
        "--agent",
        metavar="NAME",
        action="append",
        help="An agent it may call; give it again for another. All, by default.",
    )


def _declare_list(parser: ArgumentParser) -> None:
    """Declare the arguments of `list`."""
    parser.add_argument(
        "--all", action="store_true", help="Also those revoked or expired."
    )
    parser.add_argument("--json", action="store_true", help="Print JSON.")


def _declare_revoke(parser: ArgumentParser) -> None:
    """Declare the arguments of `revoke`."""
    parser.add_argument("id", metavar="ID", help="Its id, or how that alone begins.")


def are_tokens_required(config: Config) -> bool:
    """Return whether `/v1` requires tokens."""
    proxy = config.get(AUTH).proxy
    return proxy is not None and proxy.tokens is not None


def _parse_limit(text: str | None) -> int | None:
    return None if text is None else dollars.parse_usd(text)


def _parse_expiry(text: str, now: datetime) -> datetime | None:
    return None if text == "never" else time_parsing.parse_future(text, now)
