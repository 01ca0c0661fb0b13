"""LiteLLM's settings of its router, its calls and its server."""

from collections.abc import Iterator
from typing import Any

from imports.litellm.agents import FileBuilder
from imports.litellm.deployments import provider_options
from imports.litellm.source import Environment, Node, Source, variable_name
from imports.report import Report

NO_PARAMETER = "agents have no such field, or its provider does not support it"
REMEDIES = {
    "alerting": "watch the metrics, or the request log",
    "cache": "replies are not cached; providers cache prompts by themselves",
    "cache_params": "replies are not cached",
    "callbacks": "see docs/telemetry.md for traces, metrics and the record of turns",
    "content_policy_fallbacks": "no other model is asked what one refuses to answer",
    "database_url": "set DATABASE_URL to a database of its own",
    "failure_callback": "see docs/telemetry.md",
    "guardrails": "write safety checks under safety:",
    "include": "put the included files into this one first",
    "max_budget": "limits are for agents, tokens and users: see limits:",
    "model_info": "it describes the model",
    "pass_through_endpoints": "only /v1 and /mcp are served",
    "retry_policy": "retries is one number for all errors",
    "routing_strategy": "calls go to endpoints at random, by weight or latency",
    "store_model_in_db": "models of its database are not in the file: add them to it",
    "success_callback": "see docs/telemetry.md",
}
BALANCES = {"simple-shuffle": None, "latency-based-routing": "latency"}
MAX_BREAKER_SECONDS = 3600
AUTH_HEADERS = {"api_key": "X-API-Key", "bearer_token": "Authorization"}


class Settings:
    """`router_settings`, `litellm_settings` and `general_settings`."""

    def __init__(
        self, source: Source, environment: Environment, report: Report
    ) -> None:
        self._environment = environment
        self._report = report
        self._router = source.take_node(source.root, "router_settings")
        self._calls = source.take_node(source.root, "litellm_settings")
        self._server = source.take_node(source.root, "general_settings")
        self._mcp = source.take_node(source.root, "mcp_servers")
        self._source = source
        self._aliases = self._read_aliases()
        self._fallbacks = list(self._read_fallbacks("fallbacks"))
        self._long_fallbacks = list(self._read_fallbacks("context_window_fallbacks"))
        self._default_fallbacks = self._either("default_fallbacks", list) or []
        environment.given |= (
            source.root.take("environment_variables", dict) or {}
        ).keys()

    def _either(self, key: str, kind: type) -> Any:
        """Take a setting of the router, or else of calls, which it overrides."""
        found = self._router.take(key, kind)
        other = self._calls.take(key, kind)
        return found if found is not None else other

    def _either_number(self, *keys: str) -> float | None:
        found = None
        for node in (self._router, self._calls):
            for key in keys:
                number = node.take_number(key)
                found = number if found is None else found
        return found

    def _read_aliases(self) -> dict[str, str]:
        aliases = {}
        for name, target in (self._either("model_group_alias", dict) or {}).items():
            if isinstance(target, dict):
                target = target.get("model")
            aliases[name] = str(target)
        return aliases

    def _read_fallbacks(self, key: str) -> Iterator[tuple[str, list[Any]]]:
        for entry in self._either(key, list) or []:
            for name, targets in entry.items() if isinstance(entry, dict) else ():
                yield str(name), targets if isinstance(targets, list) else [targets]

    def named_models(self) -> set[str]:
        """Return the models that aliases and fallbacks name."""
        named = {*self._aliases.values(), *map(str, self._default_fallbacks)}
        for name, targets in (*self._fallbacks, *self._long_fallbacks):
            named |= {name, *map(str, targets)}
        return named - self._aliases.keys()

    def provider_defaults(self) -> dict[str, Any]:
        """Return the fields of each provider."""
        defaults = provider_options(
            self._either_number("num_retries"),
            self._either_number("timeout", "request_timeout"),
            self._either_number("stream_timeout"),
        )
        breaker: dict[str, Any] = {}
        allowed = self._either_number("allowed_fails")
        if allowed is not None:
            breaker["failures"] = min(int(allowed) + 1, 1000)
        cooldown = self._either_number("cooldown_time")
        if cooldown:
            seconds = min(cooldown, MAX_BREAKER_SECONDS)
            breaker |= {"open_seconds": seconds, "max_open_seconds": max(seconds, 15)}
        if self._either("disable_cooldowns", bool) or cooldown == 0:
            breaker = {"failures": 0}
        if breaker:
            defaults["breaker"] = breaker
        return defaults

    def balance(self) -> str | None:
        """Return how calls are distributed among endpoints; None for the default."""
        strategy = self._router.data.get("routing_strategy")
        if strategy in BALANCES:
            self._router.drop("routing_strategy")
        return BALANCES.get(str(strategy))

    def add_to(self, builder: FileBuilder) -> None:
        """Add fallbacks to the agents, then aliases of them."""
        names = {*builder.agents, *self._aliases}
        for name, targets in self._fallbacks:
            for each in [*builder.agents] if name == "*" else [name]:
                builder.add_fallbacks(each, targets, f"fallbacks.{name}", names)
        for name in builder.agents.keys() - dict(self._fallbacks).keys():
            targets = self._default_fallbacks
            builder.add_fallbacks(name, targets, "default_fallbacks", names)
        for name, targets in self._long_fallbacks:
            path = f"context_window_fallbacks.{name}"
            builder.add_fallbacks(name, targets, path, names)
            self._report.note(
                f"{path}: these answer prompts that are too long if their windows are "
                "known to be larger, and after other failures, too"
            )
        for alias, target in self._aliases.items():
            builder.add_alias(alias, target, f"model_group_alias.{alias}")
        if self._calls.take("drop_params", bool):
            for agent in builder.agents.values():
                agent["unknown_parameters"] = "drop"
            self._report.note(
                "litellm_settings.drop_params: parameters that OpenAI's API does not "
                "have are dropped; those that only a provider lacks are refused"
            )

    def file_data(
        self, builder: FileBuilder, *, requires_tokens: bool
    ) -> dict[str, Any]:
        """Return the whole new file."""
        has_master = self._server.take("master_key", str) is not None
        data: dict[str, Any] = {
            "providers": builder.providers,
            "agents": list(builder.agents.values()),
            "prices": builder.prices,
            "limits": builder.limits,
            "mcp": self._mcp_servers(),
            # As LiteLLM, which keeps nothing.
            "history": "none",
        }
        size = self._server.take_number("max_request_size_mb")
        if size:
            data["server"] = {"max_body_bytes": int(size * 1024 * 1024)}
        if requires_tokens or has_master:
            data["auth"] = {"proxy": {"tokens": {}}}
        else:
            data["users"] = "shared"
            self._report.note(
                "users: the file has no master_key, so /v1 is open; if LiteLLM had one "
                "in LITELLM_MASTER_KEY, require tokens: see docs/tokens.md"
            )
        if has_master:
            self._report.note(
                "general_settings.master_key: create a token for each client that "
                "sends it: `coulisse token create`"
            )
        self._report.note(
            "history: none keeps no conversations, as LiteLLM; remove it for those of "
            "users, see docs/history.md"
        )
        return {key: value for key, value in data.items() if value or key == "users"}

    def _mcp_servers(self) -> dict[str, Any]:
        servers = {}
        for name in list(self._mcp.data):
            node = self._source.take_node(self._mcp, name)
            server = self._mcp_server(node)
            if "url" in server or "command" in server:
                servers[name.replace(" ", "_")] = server
        if servers:
            self._report.note(
                "mcp_servers: name each under mcp_tools of the agents that may use it"
            )
        return servers

    def _mcp_server(self, node: Node) -> dict[str, Any]:
        fields = {"url": str, "command": str, "transport": str, "args": list}
        taken = {key: node.take(key, kind) for key, kind in fields.items()}
        server = {key: value for key, value in taken.items() if value}
        env = node.take("env", dict) or {}
        if env:
            path = node.path_of("env")
            server["env"] = {
                key: self._environment.secret(str(value), key, f"{path}.{key}")
                for key, value in env.items()
            }
        headers = self._mcp_headers(node)
        if headers:
            server["headers"] = headers
        if "url" in server and node.data.get("auth_type") != "oauth2":
            server["oauth"] = False
        node.drop("auth_type", "description")
        return server

    def _mcp_headers(self, node: Node) -> dict[str, str]:
        headers = {
            name: self._environment.header(
                name, str(value), node.path_of("static_headers")
            )
            for name, value in (node.take("static_headers", dict) or {}).items()
        }
        kind = node.data.get("auth_type")
        for key in ("auth_value", "authentication_token"):
            value = node.take(key, str)
            name = AUTH_HEADERS.get(str(kind), "Authorization")
            if value:
                variable = f"{node.path.split('.')[-1].upper()}_TOKEN"
                secret = self._environment.secret(
                    value, variable_name(variable), node.path_of(key)
                )
                is_bearer = kind == "bearer_token"
                headers[name] = f"Bearer {secret}" if is_bearer else secret
        return headers

    def report_rest(self) -> None:
        """Report what nothing was made of."""
        for path, key in self._source.leftovers():
            is_of_model = ".litellm_params." in path
            remedy = NO_PARAMETER if is_of_model else "there is no such setting"
            self._report.no_counterpart(path, REMEDIES.get(key, remedy))
