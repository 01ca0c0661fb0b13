"""Groups of deployments become agents and their providers."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from imports.litellm import budgets
from imports.litellm.deployments import LIMITS, Deployment
from imports.report import Report
from providers.registry import KINDS


class FileBuilder:
    """The sections `providers`, `agents`, `prices` and `limits` of the new file."""

    def __init__(
        self, defaults: Mapping[str, Any], balance: str | None, report: Report
    ) -> None:
        """`defaults` are fields of each provider that its deployments do not set;
        `balance` is that of providers with several endpoints."""
        self._defaults = defaults
        self._balance = balance
        self._report = report
        self.providers: dict[str, dict[str, Any]] = {}
        self.agents: dict[str, dict[str, Any]] = {}
        self.prices: dict[str, dict[str, Any]] = {}
        self.limits: list[dict[str, Any]] = []

    def add_group(self, name: str, deployments: Sequence[Deployment]) -> None:
        """Add the agent of the deployments with one name.

        Those of one model are endpoints of a provider; other models are fallbacks.
        """
        shares = _weights(deployments)
        most = _model(deployments[shares.index(max(shares))])
        same = [each for each in deployments if _model(each) == most]
        first = same[0]
        # Also one that is listed twice, as for other tags.
        same = [e for n, e in enumerate(same) if e.address not in _addresses(same[:n])]
        agent = {
            "name": name,
            "provider": self._add_provider(same),
            "model": first.model,
            **first.agent,
        }
        others: dict[str, list[Deployment]] = {}
        for each in deployments:
            if _model(each) != _model(first):
                others.setdefault(_model(each), []).append(each)
        for group in others.values():
            self._add_model(agent, group)
        self.agents[name] = agent
        for each in deployments:
            if each.budget is not None:
                self._add_budget(each, is_only=len(deployments) == 1)

    def _add_model(
        self, agent: dict[str, Any], deployments: Sequence[Deployment]
    ) -> None:
        """Add another model of an agent as its fallback."""
        first = deployments[0]
        lacking = KINDS[first.kind].unsupported_parameters or frozenset()
        if unsupported := sorted(lacking & agent.keys()):
            self._report.no_counterpart(
                first.path,
                f"{first.prefix} does not support {', '.join(unsupported)} of "
                f"'{agent['name']}'; make an agent of it, and name that as a fallback",
            )
            return
        self._report.note(
            f"{first.path}: '{agent['name']}' has several models there, which "
            f"share the calls; here one answers, and {first.model} is its fallback"
        )
        fallback = {"provider": self._add_provider(deployments), "model": first.model}
        agent.setdefault("fallbacks", []).append(fallback)

    def _add_budget(self, deployment: Deployment, *, is_only: bool) -> None:
        path = f"{deployment.path}.litellm_params.max_budget"
        limit, problem = budgets.as_limit(*deployment.budget or (0, None))
        if not is_only:
            limit, problem = {}, "limits are for agents, which have several models here"
        if limit:
            self.limits.append({"per": "agent", "name": deployment.name, **limit})
        if problem:
            self._report.no_counterpart(path, problem)

    def _add_provider(self, deployments: Sequence[Deployment]) -> str:
        """Add the provider of one model, or find the same one; return its name."""
        first = deployments[0]
        entry = {"kind": first.kind, **self._defaults}
        for key, value in first.provider.items():
            own = self._defaults.get(key)
            entry[key] = {**own, **value} if isinstance(own, dict) else value
        if len(deployments) == 1:
            entry |= first.address
        else:
            if self._balance:
                entry["balance"] = self._balance
            weights = _weights(deployments)
            entry["endpoints"] = [
                {**each.address, **({} if weight == 1 else {"weight": weight})}
                for each, weight in zip(deployments, weights, strict=True)
            ]
        limits = _limits(deployments)
        name = self._provider_name(first.prefix, entry, limits)
        if first.price:
            price = {"input": 0.0, "output": 0.0, **first.price}
            self.prices.setdefault(name, {})[first.model] = price
        return name

    def _provider_name(
        self, prefix: str, entry: dict[str, Any], limits: dict[str, int]
    ) -> str:
        """Add a provider, or find the same one; one with limits is not shared."""
        if limits:
            entry["limits"] = limits
        name, number = prefix, 1
        while name in self.providers and (limits or self.providers[name] != entry):
            number += 1
            name = f"{prefix}-{number}"
        self.providers[name] = entry
        return name

    def add_alias(self, alias: str, target: str, path: str) -> None:
        """Add an agent with another name for the same model and fallbacks."""
        if alias in self.agents:
            self._report.no_counterpart(path, f"there is a model named '{alias}', too")
        elif target not in self.agents:
            self._report.no_counterpart(path, f"there is no agent '{target}'")
        else:
            agent = {**self.agents[target], "name": alias}
            fallbacks = [each for each in agent.pop("fallbacks", ()) if each != alias]
            self.agents[alias] = {
                **agent,
                **({"fallbacks": fallbacks} if fallbacks else {}),
            }

    def add_fallbacks(
        self, name: str, targets: Sequence[Any], path: str, names: Collection[str]
    ) -> None:
        """Add fallbacks to an agent, after those that it has.

        `names` are those of all agents, also of aliases that will be added.
        """
        agent = self.agents.get(name)
        if agent is None:
            self._report.no_counterpart(path, f"there is no agent '{name}'")
            return
        for target in targets:
            if not isinstance(target, str) or target not in names:
                self._report.no_counterpart(path, f"there is no agent '{target!s:.60}'")
            elif target != name and target not in agent.get("fallbacks", ()):
                agent.setdefault("fallbacks", []).append(target)


def _addresses(deployments: Sequence[Deployment]) -> list[dict[str, Any]]:
    return [each.address for each in deployments]


def _model(deployment: Deployment) -> str:
    """Return what the endpoints of one provider have in common."""
    return repr((deployment.kind, deployment.model, deployment.provider))


def _weights(deployments: Sequence[Deployment]) -> list[float]:
    """Return the shares of calls: by weight, else by the first limit of all."""
    for measure in ("", *LIMITS.values()):
        shares = [
            each.limits.get(measure, 0) if measure else each.weight or 0
            for each in deployments
        ]
        if any(shares):
            least = min(each for each in shares if each)
            # Without a share LiteLLM sends no calls; the smallest possible one is kept.
            return [_tidy(max(each / least, 0.001)) for each in shares]
    return [1] * len(deployments)


def _limits(deployments: Sequence[Deployment]) -> dict[str, int]:
    """Return what the deployments allow together, as far as each has a limit."""
    found = {}
    for name in LIMITS.values():
        limits = [each.limits[name] for each in deployments if name in each.limits]
        if len(limits) == len(deployments):
            found[name] = sum(limits)
    # LiteLLM refuses further calls, or sends them elsewhere, and lets none wait.
    return {**found, "queue": 0} if found else found


def _tidy(number: float) -> float:
    return int(number) if number == int(number) else round(number, 3)
