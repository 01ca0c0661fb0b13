"""Limits on requests that are not turns: memory searches, exports, lists.

They are counted like turns: their usage is reserved before the work and settled
afterwards. Without a limit, token or budget, this does not use the database.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from access.limits.usage_counters import Charge
from config.sections import Config
from core import money
from database import database_executor
from database.errors import DatabaseDown
from providers.embeddings import usage_collector
from providers.embeddings.usage_collector import EmbeddingCall
from providers.pricing import call_costs
from turns.budget import async_reservations, request_usage
from turns.budget.request_usage import UsageRequest
from turns.budget.usage_grant import UsageGrant

T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class AdmittedRequest:
    """A request in progress that passed the limits."""

    headers: Mapping[str, str]
    """`x-ratelimit-*`: what remains of the tightest limit."""
    request: UsageRequest
    grant: UsageGrant
    calls: Sequence[EmbeddingCall] = ()
    is_streamed: bool = False

    def stream(self, content: AsyncIterable[T]) -> AsyncGenerator[T]:
        """Keep the reservation until this content is sent or the client disconnects."""
        self.is_streamed = True
        return self._stream_then_settle(content)

    async def _stream_then_settle(self, content: AsyncIterable[T]) -> AsyncGenerator[T]:
        try:
            async for chunk in content:
                yield chunk
        finally:
            await self.settle()

    def charge(self) -> Charge:
        """Return the charge for its embeddings so far."""
        return embedding_charge(self.request.config, self.calls)

    async def settle(self) -> None:
        """Charge and record the embeddings, and release the reservation."""
        grant = self.grant if self.calls else replace(self.grant, counter_keys=())
        if not grant.is_charged and not self.calls:
            return
        config, charge = self.request.config, self.charge()
        try:
            await database_executor.run_to_end(
                request_usage.settle_usage, grant, charge, config, self.calls
            )
        except DatabaseDown:
            # The reservation expires by itself; only the charge is lost.
            logger.error(
                "could not charge %d embedding tokens (%s): database unavailable",
                charge.tokens,
                money.format_usd(charge.micro_usd),
            )


@asynccontextmanager
async def admit(request: UsageRequest) -> AsyncGenerator[AdmittedRequest]:
    """Reserve a request's usage, and settle the cost of its embeddings at the end.

    Raises `LimitReached`, `BudgetExceeded`, `PriceUnknown` and `CredentialRefused`.
    """
    grant = await _reserve(request)
    with usage_collector.collect_calls() as calls:
        admitted = AdmittedRequest(grant.headers, request, grant, calls)
        try:
            yield admitted
        finally:
            if not admitted.is_streamed:
                await admitted.settle()


async def _reserve(request: UsageRequest) -> UsageGrant:
    if request.limits():
        return await async_reservations.call_with_release(
            request_usage.reserve_usage, request
        )
    # Authentication has just checked the token in the database.
    has_token = request.caller.token is not None
    return UsageGrant(request.counter_keys() if has_token else ())


def embedding_charge(config: Config, calls: Sequence[EmbeddingCall]) -> Charge:
    costs = [
        call_costs.embedding_cost(config, call.source, call.tokens) for call in calls
    ]
    return Charge(
        sum(call.tokens for call in calls),
        sum(cost for cost in costs if cost is not None),
        is_priced=None not in costs,
    )
