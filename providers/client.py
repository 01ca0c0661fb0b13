"""Calls to models: which endpoint, how often, what it took.

    async for event in client.run("openai", provider, call): ...

Closing the generator, or cancelling its task, closes the provider's connection at
once, whether it has answered or not.
"""

import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import orjson

from core.errors import CoulisseError, Invalid, recorded_text
from core.events import Event
from core.trace import CANCELLED, Attempt
from providers import supported_parameters
from providers.config import BreakerConfig, ProviderConfig
from providers.errors import ProviderFailed
from providers.model_call import ModelRequest
from providers.resilience import backoff, circuit_breaker
from providers.resilience.error_mapping import ProviderSource
from providers.resilience.timeouts import CallDeadline
from providers.transport import endpoint_pool, http_request
from providers.transport.endpoint_pool import Endpoint, EndpointPool
from providers.transport.http_request import EndpointRequest, HttpExchange

T = TypeVar("T")

logger = logging.getLogger(__name__)

NOT_SENT = "broken off before it was sent"
"""The error of an attempt whose caller left while we were connecting, say."""
_FailedAttempts = list[tuple[Endpoint, ProviderFailed]]
SINGLE_ENDPOINT = {"breaker": BreakerConfig(failures=0), "endpoints": ()}
"""Have a provider be asked whatever it did before, and as the one it is."""

close = http_request.close_session
loops = http_request.open_loops


async def run(
    name: str,
    provider: ProviderConfig,
    call: ModelRequest,
    attempts: list[Attempt] | None = None,
) -> AsyncGenerator[Event]:
    """Make one call and yield what the model says; the last event is Finished.

    `name` is the provider's key in the YAML. Failures before the first event are
    tried again, at other endpoints if there are any, as the configuration allows; none
    is after it. Every request sent is put into `attempts` once its reply has begun or
    failed; one that is broken off before, because the caller leaves, is put there with
    the error `CANCELLED` or `NOT_SENT`. Raises what `providers.errors` lists, and
    Invalid for what the provider's API cannot say.
    """
    exchange = await _start_exchange(_prepare(name, provider, call, attempts))
    try:
        for event in exchange.whole or exchange.first:
            yield event
        stream = exchange.stream
        while stream is not None and not stream.finished:
            for event in await stream.next_events():
                yield event
        await exchange.drain()
    finally:
        exchange.close()


async def post_json(
    source: ProviderSource,
    url: str,
    body: Mapping[str, Any],
    read: Callable[[Any, ProviderSource], T],
    *,
    headers: Mapping[str, str],
    attempts: list[Attempt] | None = None,
) -> T:
    """Post JSON and return what `read` makes of the JSON that comes back.

    Tried again and told of in `attempts` as `run` does; raises the same errors. What
    `read` finds wrong it raises as `failures.broken`, or as any of
    `failures.PARSE_ERRORS`.
    """
    provider = source.provider
    sending = EndpointRequest(
        source, url, _encode(body), endpoint_pool.build_headers(provider, headers), read
    )
    # What fails here is not a chat model, and says nothing of one.
    only = EndpointPool(source.name, provider.model_copy(update=SINGLE_ENDPOINT))
    request = _PreparedRequest(
        only, lambda _: sending, CallDeadline(source, stream=False), attempts
    )
    exchange = await _start_exchange(request)
    try:
        # Set by an exchange without a stream.
        whole: T = exchange.whole  # type: ignore[assignment]
        await exchange.drain()
        return whole
    finally:
        exchange.close()


class _PreparedRequest(Generic[T]):
    """A call made ready: everything its attempts share."""

    def __init__(
        self,
        pool: EndpointPool,
        sending: Callable[[Endpoint], EndpointRequest[T]],
        patience: CallDeadline,
        attempts: list[Attempt] | None,
    ) -> None:
        self.pool = pool
        self.sending = sending
        """Returns what an endpoint is sent."""
        self.patience = patience
        self.attempts = [] if attempts is None else attempts


def _prepare(
    name: str,
    provider: ProviderConfig,
    call: ModelRequest,
    attempts: list[Attempt] | None,
) -> _PreparedRequest[Iterable[Event]]:
    supported_parameters.check_parameters(name, provider, call.parameters)
    lone = ProviderSource(name, provider, call.model)
    bodies: dict[int, bytes] = {}

    def sending(endpoint: Endpoint) -> EndpointRequest[Iterable[Event]]:
        wire, number = endpoint.wire, endpoint.number
        body = bodies.get(id(wire))
        if body is None:
            body = bodies[id(wire)] = _encode(wire.body(call))
        return EndpointRequest(
            lone if number is None else replace(lone, endpoint=number),
            endpoint.url,
            body,
            endpoint.headers,
            wire.read,
            wire if call.stream else None,
        )

    patience = CallDeadline(lone, stream=call.stream)
    return _PreparedRequest(
        endpoint_pool.find_pool(name, provider), sending, patience, attempts
    )


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as exc:
        # Lone surrogates, numbers past 64 bits: valid to Python, not to JSON.
        raise Invalid(f"the request cannot be written as JSON: {exc}") from exc


async def _start_exchange(request: _PreparedRequest[T]) -> HttpExchange[T]:
    """Return an exchange whose reply has begun, after as many rounds as allowed."""
    rounds = 1
    among: Sequence[Endpoint] = request.pool.endpoints
    while True:
        failed: _FailedAttempts = []
        try:
            return await _try_endpoints(request, among, failed)
        except ProviderFailed as error:
            again = _plan_retry(request, among, failed, rounds)
            if again is None:
                raise
            among, wait_seconds = again
            logger.info("retry %d in %.1f s: %s", rounds, wait_seconds, error)
        finally:
            # Their tracebacks lead here: they would keep all of this alive.
            failed.clear()
        await backoff.sleep(wait_seconds)
        request.patience.subtract_pause(wait_seconds)
        rounds += 1


async def _try_endpoints(
    request: _PreparedRequest[T], among: Sequence[Endpoint], failed: _FailedAttempts
) -> HttpExchange[T]:
    """Ask each endpoint once, until one answers; put those that fail into `failed`."""
    untried = [*among]
    while True:
        endpoint = request.pool.choose(untried)
        if endpoint is None:
            raise _best_error(failed) or request.pool.circuit_open_error()
        try:
            return await _try_endpoint(request, endpoint)
        except ProviderFailed as error:
            failed.append((endpoint, error))
            untried.remove(endpoint)
            if request.patience.left <= 0:
                raise
            if untried:
                logger.info("endpoint '%s' failed: %s", endpoint.name, error)


def _best_error(failed: _FailedAttempts) -> ProviderFailed | None:
    """Return what the caller learns: how soon it may do better, if it may at all."""
    errors = [error for _, error in failed]
    return min(
        errors,
        key=lambda error: (not error.retryable, _requested_wait(error)),
        default=None,
    )


def _requested_wait(error: ProviderFailed) -> float:
    return getattr(error, "retry_after_seconds", None) or 0.0


def _plan_retry(
    request: _PreparedRequest[Any],
    among: Sequence[Endpoint],
    failed: _FailedAttempts,
    rounds: int,
) -> tuple[list[Endpoint], float] | None:
    """Return whom to ask once more, and how long to wait before; None if nobody."""
    hopeful = {
        each: _requested_wait(error) for each, error in failed if error.retryable
    }
    if not hopeful or rounds > request.pool.provider.retries:
        return None
    seconds = backoff.delay_seconds(rounds, min(hopeful.values()))
    if seconds is None or seconds >= request.patience.left:
        return None
    asked = {each for each, _ in failed}
    ready = [
        each
        for each in among
        if (hopeful.get(each, math.inf) <= seconds or each not in asked)
        and each.circuit.admits(circuit_breaker.now() + seconds)
    ]
    return (ready, seconds) if ready else None


async def _try_endpoint(
    request: _PreparedRequest[T], endpoint: Endpoint
) -> HttpExchange[T]:
    """Send a request, and tell the endpoint's circuit and the record of it."""
    exchange = HttpExchange(request.sending(endpoint), request.patience)
    circuit = endpoint.circuit
    trying = circuit.enter()
    sent = time.perf_counter()
    try:
        await exchange.start()
    except BaseException as exc:
        exchange.close()
        _record_attempt(request, endpoint, sent, _describe_failure(exc, exchange))
        if isinstance(exc, CoulisseError):
            lone, rules = (
                request.pool.has_single_endpoint,
                request.pool.provider.breaker,
            )
            circuit.fail(exc, rules, lone=lone, trying=trying)
        else:
            circuit.leave(trying=trying)
        raise
    _record_attempt(request, endpoint, sent, None)
    circuit.succeed()
    return exchange


def _describe_failure(error: BaseException, exchange: HttpExchange[Any]) -> str:
    if isinstance(error, Exception):
        return recorded_text(error)
    return CANCELLED if exchange.is_sent else NOT_SENT


def _record_attempt(
    request: _PreparedRequest[T], endpoint: Endpoint, sent: float, error: str | None
) -> None:
    seconds = time.perf_counter() - sent
    request.attempts.append(Attempt(endpoint.name, seconds, error))
