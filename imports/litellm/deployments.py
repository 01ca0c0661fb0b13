"""Deployments: entries of `model_list`, each a model at an address with a key."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from imports.litellm.apis import APIS, Api, find_api
from imports.litellm.source import Environment, Node, Source
from imports.report import Report
from providers.config import KindName
from providers.registry import KINDS

CHAT_MODES = ("chat", "completion", "responses")
OTHER_MODELS = {
    "embed": "embeddings",
    "rerank": "ranking",
    "moderation": "moderation",
    "dall-e": "images",
    "gpt-image": "images",
    "whisper": "sounds",
    "transcribe": "sounds",
    "tts": "sounds",
}
"""Uses of models without a `mode`, by words in their names."""
PARAMETERS = (
    "frequency_penalty",
    "max_tokens",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning_effort",
    "seed",
    "service_tier",
    "stop",
    "temperature",
    "top_p",
    "verbosity",
)
EXTRA_PARAMETERS = ("min_p", "repetition_penalty", "top_k")
PRICES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
}
MILLION = 1_000_000
LIMITS = {
    "rpm": "requests_per_minute",
    "tpm": "tokens_per_minute",
    "max_parallel_requests": "concurrent_calls",
}
"""The names of a provider's limits."""


@dataclass
class Deployment:
    path: str
    name: str
    """What clients send as `model`."""
    prefix: str
    kind: KindName
    model: str
    address: dict[str, Any] = field(default_factory=dict)
    """The key, the address and headers, as a provider or an endpoint has them."""
    provider: dict[str, Any] = field(default_factory=dict)
    """Other fields of the provider."""
    agent: dict[str, Any] = field(default_factory=dict)
    """Fields of the agent beside its name and model."""
    price: dict[str, float] = field(default_factory=dict)
    weight: float | None = None
    limits: dict[str, int] = field(default_factory=dict)
    """As a provider has them."""
    budget: tuple[float, str | None] | None = None
    """Dollars, and how often they are renewed."""


class DeploymentReader:
    """Reads the entries of `model_list`."""

    def __init__(
        self, source: Source, environment: Environment, report: Report
    ) -> None:
        self._source = source
        self._environment = environment
        self._report = report
        self._credentials = {
            node.take("credential_name", str): node.take("credential_values", dict)
            for node in source.take_nodes(source.root, "credential_list")
        }
        self._entries = list(source.take_nodes(source.root, "model_list"))

    def names(self) -> list[str]:
        """Return the names of models, without patterns."""
        return [name for node in self._entries if "*" not in (name := _name(node))]

    def read(self, wanted: Collection[str]) -> Iterator[Deployment]:
        """Yield the deployments of chat models.

        A pattern such as `openai/*` yields those of the wanted names that it matches
        and no entry has.
        """
        explicit = set(self.names())
        for node in self._entries:
            self._report.count("models", read=1)
            name = _name(node)
            matched = [name] if "*" not in name else []
            if not matched:
                others = sorted(set(wanted) - explicit)
                matched = [each for each in others if _matched(name, each) is not None]
                self._report.no_counterpart(
                    node.path_of("model_name"),
                    f"the pattern '{name}': each agent has one model; written for "
                    f"{', '.join(matched) or 'none'}, add others with --model NAME",
                )
            data = {**node.data}
            node.data.clear()
            for each in matched:
                yield from self._read_one(self._source.node(node.path, {**data}), each)

    def _read_one(self, node: Node, name: str) -> Iterator[Deployment]:
        pattern = node.take("model_name", str) or ""
        info = self._source.take_node(node, "model_info")
        mode = info.take("mode", str)
        params = self._source.take_node(node, "litellm_params")
        credential = self._credentials.get(params.take("litellm_credential_name", str))
        params.data = {**(credential or {}), **params.data}
        model = params.take("model", str) or ""
        model = model.replace("*", _matched(pattern, name) or "*", 1)
        given = params.take("custom_llm_provider", str)
        address = params.data.get("api_base") or params.data.get("base_url")
        prefix, model = find_api(model, given, address)
        problem = self._problem(prefix, model, name, mode)
        if problem:
            self._report.skip("models", f"{name} ({node.path})", problem)
            params.data.clear()
            info.data.clear()
            return
        yield self._convert(
            Deployment(node.path, name, prefix, APIS[prefix].kind, model), params, info
        )

    def _problem(
        self, prefix: str, model: str, name: str, mode: str | None
    ) -> str | None:
        """Return why a deployment cannot become an agent."""
        if not name or not model:
            return "it has no model_name, or no model"
        words = (use for word, use in OTHER_MODELS.items() if word in model)
        use = mode or next(words, "chat")
        if use not in CHAT_MODES:
            return f"a model for {use} is no agent"
        if prefix not in APIS:
            return (
                f"there is no kind of provider for '{prefix}'; if it has an API like "
                "OpenAI's, set api_base and write openai/ before the model"
            )
        return None

    def _convert(self, found: Deployment, params: Node, info: Node) -> Deployment:
        api = APIS[found.prefix]
        found.address = self._address(found, api, params)
        retries = params.take_number("num_retries")
        found.provider = provider_options(
            retries if retries is not None else params.take_number("max_retries"),
            params.take_number("timeout"),
            params.take_number("stream_timeout"),
        )
        found.agent = self._agent(found, params, info)
        found.weight = params.take_number("weight")
        for key, name in LIMITS.items():
            if number := params.take_number(key):
                found.limits[name] = max(int(number), 1)
        for node in (params, info):
            for key, name in PRICES.items():
                cost = node.take_number(key)
                if cost is not None:
                    found.price[name] = round(cost * MILLION, 6)
        budget = params.take_number("max_budget")
        if budget is not None:
            found.budget = budget, params.take("budget_duration", str)
        params.drop("drop_params")
        info.drop("id", "base_model", "max_tokens", "max_output_tokens", "db_model")
        info.drop(*[key for key in info.data if key.startswith("supports_")])
        return found

    def _address(self, found: Deployment, api: Api, params: Node) -> dict[str, Any]:
        """Return the key, the address and the headers."""
        address: dict[str, Any] = {}
        path = params.path_of("api_key")
        key = params.take("api_key", str)
        if key is not None:
            name = api.key or f"{found.prefix.upper()}_API_KEY"
            address["api_key"] = self._environment.secret(key, name, path)
        elif api.key:
            address["api_key"] = self._environment.add(api.key)
        url = params.take("api_base", str) or params.take("base_url", str)
        if url is not None and api.is_fixed:
            self._report.no_counterpart(
                params.path_of("api_base"), f"kind {api.kind} calls another API of it"
            )
        elif url is not None or api.base_url:
            address["base_url"] = self._url(url or api.base_url, api)
        elif found.prefix == "azure":
            base = self._environment.add("AZURE_API_BASE")
            address["base_url"] = f"{base}{api.path}"
        params.drop("api_version")
        headers = self._headers(params)
        return {**address, **({"headers": headers} if headers else {})}

    def _url(self, url: str, api: Api) -> str:
        url = self._environment.text(url).rstrip("/")
        if api.kind == "anthropic":
            return url.removesuffix("/v1/messages").removesuffix("/v1")
        url = url.removesuffix("/chat/completions").removesuffix("/api")
        return url if url.endswith(api.path) else url + api.path

    def _headers(self, params: Node) -> dict[str, str]:
        headers = {}
        for key in ("headers", "extra_headers"):
            path = params.path_of(key)
            for name, value in (params.take(key, dict) or {}).items():
                headers[name] = self._environment.header(name, str(value), path)
        organization = params.take("organization", str)
        if organization is not None:
            headers["OpenAI-Organization"] = organization
        return headers

    def _agent(self, found: Deployment, params: Node, info: Node) -> dict[str, Any]:
        limit = params.take_number("max_completion_tokens")
        agent: dict[str, Any] = {} if limit is None else {"max_tokens": limit}
        unsupported = KINDS[found.kind].unsupported_parameters or ()
        for key in PARAMETERS:
            # Those that the API does not have are left over.
            if key not in unsupported and params.data.get(key) is not None:
                agent[key] = params.data.pop(key)
        extra = params.take("extra_body", dict) or {}
        extra |= {
            key: params.data.pop(key) for key in EXTRA_PARAMETERS if key in params.data
        }
        if extra:
            agent["extra_body"] = extra
        window = info.take_number("max_input_tokens")
        if window is not None:
            agent["context_window"] = window
        description = info.take("description", str)
        if description:
            agent["purpose"] = " ".join(description.split())
        return agent


def _name(node: Node) -> str:
    name = node.data.get("model_name")
    return name if isinstance(name, str) else ""


def _matched(pattern: str, name: str) -> str | None:
    """Return what the `*` of a pattern stands for in a name; None if none is."""
    begin, star, end = pattern.partition("*")
    if not star or not name.startswith(begin) or not name.endswith(end):
        return None
    return name[len(begin) : len(name) - len(end)] or None


def provider_options(
    retries: float | None, timeout: float | None, stream_timeout: float | None
) -> dict[str, Any]:
    """Return retries and timeouts as a provider has them."""
    options: dict[str, Any] = {}
    if retries is not None:
        options["retries"] = min(int(retries), 10)
    timeouts = {"first_token_seconds": stream_timeout, "total_seconds": timeout}
    given = {key: value for key, value in timeouts.items() if value}
    if given:
        options["timeouts"] = given
    return options
