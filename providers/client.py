"""Calls to models: endpoint choice, retries and records of attempts.

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

NOT_SENT = "cancelled before it was sent"
"""The error of an attempt whose caller left before the request was sent."""
_FailedAttempts = list[tuple[Endpoint, ProviderFailed]]
SINGLE_ENDPOINT = {"breaker": BreakerConfig(failures=0), "endpoints": ()}
"""Disables the circuit breaker and treats the provider as a single endpoint."""

close = http_request.close_session
loops = http_request.open_loops


async def run(
    name: str,
    provider: ProviderConfig,
    call: ModelRequest,
    attempts: list[Attempt] | None = None,
) -> AsyncGenerator[Event]:
    """Make one call and yield its events; the last one is `TurnFinished`.

    `name` is the provider's key in the YAML. Failures before the first event are
    retried, at other endpoints if there are any, as the configuration allows; later
    failures are not. Every request sent is appended to `attempts` once its reply has
    begun or failed; if the caller leaves before that, with the error `CANCELLED` or
    `NOT_SENT`. Raises the errors in `providers.errors`, and `Invalid` for input that
    the provider's API cannot express.
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
    """Post JSON and return the result of `read` on the JSON reply.

    Retries and fills `attempts` as `run` does, and raises the same errors. For invalid
    replies, `read` raises `error_mapping.malformed_reply` or any of
    `error_mapping.PARSE_ERRORS`.
    """
    provider = source.provider
    sending = EndpointRequest(
        source, url, _encode(body), endpoint_pool.build_headers(provider, headers), read
    )
    # A failure here concerns no chat model and does not affect its circuit.
    only = EndpointPool(source.name, provider.model_copy(update=SINGLE_ENDPOINT))
    request = _PreparedRequest(
        only, lambda _: sending, CallDeadline(source, stream=False), attempts
    )
    exchange = await _start_exchange(request)
    try:
        # Set for an exchange without a stream.
        whole: T = exchange.whole  # type: ignore[assignment]
        await exchange.drain()
        return whole
    finally:
        exchange.close()


class _PreparedRequest(Generic[T]):
    """The data that all attempts of a call share."""

    def __init__(
        self,
        pool: EndpointPool,
        sending: Callable[[Endpoint], EndpointRequest[T]],
        patience: CallDeadline,
        attempts: list[Attempt] | None,
    ) -> None:
        self.pool = pool
        self.sending = sending
        """Returns the request for an endpoint."""
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
        # Lone surrogates and numbers past 64 bits are valid in Python, not in JSON.
        raise Invalid(f"the request cannot be encoded as JSON: {exc}") from exc


async def _start_exchange(request: _PreparedRequest[T]) -> HttpExchange[T]:
    """Return an exchange whose reply has begun, after the allowed number of rounds."""
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
            # Their tracebacks refer to this frame and would keep its data alive.
            failed.clear()
        await backoff.sleep(wait_seconds)
        request.patience.subtract_pause(wait_seconds)
        rounds += 1


async def _try_endpoints(
    request: _PreparedRequest[T], among: Sequence[Endpoint], failed: _FailedAttempts
) -> HttpExchange[T]:
    """Try each endpoint once, until one answers; collect failures in `failed`."""
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
    """Return the error for the caller: retryable first, then the shortest wait."""
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
    """Return the endpoints to retry and the delay before; None for no retry."""
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
    """Send a request; update the endpoint's circuit and the attempt record."""
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
