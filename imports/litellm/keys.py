"""Virtual keys become API tokens: both systems store the SHA-256 of a key."""

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from access.models import ApiToken
from access.tokens import token_terms
from access.users.caller import ClientUsers
from core.errors import Invalid
from imports import input_files
from imports.errors import SourceUnreadable
from imports.litellm import budgets
from imports.report import Report, batch

KIND = "API tokens"
MAX_BYTES = 256 * 1024 * 1024
DIGEST = re.compile("[0-9a-f]{64}")
ALL_MODELS = ("all-proxy-models", "all-team-models")
DASHBOARD = "litellm-dashboard"
"""The team of the sessions of LiteLLM's own pages."""
REPORTED = ("aliases", "model_max_budget", "allowed_routes", "object_permission")
LIMITS = {
    "rpm_limit": "requests_per_minute",
    "tpm_limit": "tokens_per_minute",
    "max_parallel_requests": "concurrent",
}


def read_keys(paths: Sequence[Path], report: Report) -> list[dict[str, Any]]:
    """Return the keys of answers of `/key/list`; raises `SourceUnreadable`."""
    found: list[dict[str, Any]] = []
    total = 0
    for path in paths:
        data = _read(path)
        keys: Any = data.get("keys") if isinstance(data, dict) else data
        is_list = isinstance(keys, list)
        if not is_list or not all(isinstance(each, dict) for each in keys):
            raise SourceUnreadable(
                f"{path.name} has no list 'keys' of objects; get it from "
                "/key/list?return_full_object=true"
            )
        found += keys
        if isinstance(data, dict):
            total = max(total, int(_number(data, "total_count") or 0))
    if len(found) < total:
        report.note(
            f"keys: {len(found):,} of {total:,} were given; name the files of all "
            "pages with --keys"
        )
    return found


def _read(path: Path) -> Any:
    try:
        return orjson.loads(input_files.read_file(path, MAX_BYTES))
    except orjson.JSONDecodeError as exc:
        raise SourceUnreadable(f"{path.name} is not valid JSON: {exc}") from exc


def named_models(keys: Sequence[dict[str, Any]]) -> set[str]:
    """Return the models that the keys may call."""
    found: set[str] = set()
    for key in keys:
        models = key.get("models")
        if isinstance(models, list):
            found |= {each for each in models if isinstance(each, str)}
    return found


class KeyImporter:
    """Stores keys as API tokens; `limits` are what the new file needs for them."""

    def __init__(
        self, agents: Collection[str], client_users: ClientUsers, report: Report
    ) -> None:
        self.limits: list[dict[str, Any]] = []
        self._agents = agents
        self._client_users = client_users
        self._report = report
        self._now = datetime.now(UTC)
        self._tokens: dict[str, ApiToken] = {}

    def add(self, keys: Sequence[dict[str, Any]]) -> None:
        """Read keys; those that cannot become tokens are reported."""
        for number, key in enumerate(keys):
            self._report.count(KIND, read=1)
            path = f"keys[{number}]"
            try:
                token = self._read_token(key, path)
                self._tokens[token.digest] = token
            except Invalid as exc:
                self._report.skip(KIND, path, str(exc))

    def store(self) -> None:
        """Store the tokens that are not there, in one transaction."""
        with batch(self._report):
            rows = ApiToken.objects.filter(digest__in=self._tokens)
            known = set(rows.values_list("digest", flat=True))
            new = [t for digest, t in self._tokens.items() if digest not in known]
            ApiToken.objects.bulk_create(new)
        self._report.count(KIND, written=len(new), existing=len(known))

    def _read_token(self, key: dict[str, Any], path: str) -> ApiToken:
        """Return a token with the key's digest; raises `Invalid`."""
        digest = key.get("token")
        if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
            raise Invalid("'token' is not a SHA-256; list it with return_full_object")
        if key.get("team_id") == DASHBOARD:
            raise Invalid("it is a session of LiteLLM's pages")
        if key.get("blocked"):
            raise Invalid("it is blocked")
        label = _text(key, "key_alias") or f"litellm-{digest[:8]}"
        principal = _text(key, "user_id") or _text(key, "team_id") or label
        token = ApiToken(
            digest=digest,
            label=token_terms.check_text(label, "label", token_terms.MAX_LABEL_LENGTH),
            principal=token_terms.check_principal(principal, self._client_users),
            agents=self._read_agents(key, path),
            client_users=self._client_users,
            created_at=self._now,
            expires_at=token_terms.check_expiry(
                _read_time(key.get("expires")), self._now
            ),
        )
        self._set_limits(token, key, path)
        for name in REPORTED:
            if key.get(name):
                self._report.no_counterpart(f"{path}.{name}", "tokens have none")
        return token

    def _read_agents(self, key: dict[str, Any], path: str) -> list[str] | None:
        """Return the agents that it may call; None means all."""
        models = key.get("models") or []
        if not isinstance(models, list):
            raise Invalid("'models' is not a list")
        if not models or ALL_MODELS[0] in models:
            return None
        found = [each for each in models if each in self._agents]
        unknown = [str(each)[:60] for each in models if each not in found]
        if unknown:
            self._report.no_counterpart(
                f"{path}.models", f"not an agent: {', '.join(unknown[:5])}"
            )
        if not found:
            raise Invalid("none of its models is an agent; create a token for it")
        return token_terms.check_agents(found)

    def _set_limits(self, token: ApiToken, key: dict[str, Any], path: str) -> None:
        """Set the token's budget; other limits are for the file."""
        usd, duration = _number(key, "max_budget"), _text(key, "budget_duration")
        limit: dict[str, Any] = {
            ours: int(value)
            for name, ours in LIMITS.items()
            if (value := _number(key, name)) is not None
        }
        days = budgets.read_days(duration)
        if usd is not None and days is None:
            # Only LiteLLM knows what was spent.
            rest = max(usd - (_number(key, "spend") or 0), 0)
            token.budget, token.limit_micro_usd = "total", _micro_usd(rest)
            self._report.note(f"{path}: ${rest:.2f} of ${usd:g} are left of its budget")
        elif usd is not None and days in budgets.MONTH_DAYS:
            token.budget, token.limit_micro_usd = "monthly", _micro_usd(usd)
        elif usd is not None:
            money, problem = budgets.as_limit(usd, duration)
            limit |= money
            if problem:
                self._report.no_counterpart(f"{path}.budget_duration", problem)
        if limit:
            self.limits.append({"per": "token", "name": token.label, **limit})


def _text(key: dict[str, Any], name: str) -> str:
    value = key.get(name)
    return value.strip() if isinstance(value, str) else ""


def _number(key: dict[str, Any], name: str) -> float | None:
    value = key.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise Invalid(f"'{name}' is not a number")
    return value


def _micro_usd(usd: float) -> int:
    return min(int(usd * 1_000_000), token_terms.MAX_LIMIT)


def _read_time(value: object) -> datetime | None:
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError as exc:
        raise Invalid("'expires' is not a time") from exc
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
