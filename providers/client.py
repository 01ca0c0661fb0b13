"""Calls to models: endpoint choice, retries and records of attempts.

    async for event in client.run("openai", provider, call): ...

Closing the generator, or cancelling its task, closes the provider's connection at
once, whether it has answered or not.
"""

import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import orjson

from core.errors import CoulisseError, Invalid, recorded_text
from core.events import Event, TurnFinished
from core.runtime import trace_context
from core.runtime.trace_context import TraceContext
from core.trace import CANCELLED, Attempt
from providers import registry
from providers.config import BreakerConfig, ProviderConfig
from providers.errors import ProviderFailed
from providers.model_request import ModelRequest
from providers.resilience import backoff, circuit_breaker, provider_limits
from providers.resilience.error_mapping import ProviderSource
from providers.resilience.timeouts import CallDeadline
from providers.transport import circuit_probe, endpoint_pool, http_request
from providers.transport.endpoint_pool import Endpoint, EndpointPool
from providers.transport.http_request import EndpointRequest, HttpExchange

T = TypeVar("T")

logger = logging.getLogger(__name__)

NOT_SENT = "cancelled before it was sent"
"""The error of an attempt whose caller left before the request was sent."""
_FailedAttempts = list[tuple[Endpoint, ProviderFailed]]
SINGLE_ENDPOINT = {"breaker": BreakerConfig(failures=0), "endpoints": ()}
"""Disables the circuit breaker and treats the provider as a single endpoint."""

loops = http_request.open_loops


async def close() -> None:
    """Close the connections of this event loop."""
    await http_request.close_session()
    await provider_limits.close()


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
    request = _prepare(name, provider, call, attempts)
    if provider.limits.has_any:
        request.pool.check_open()
    permit = await provider_limits.acquire(
        name,
        provider,
        has_fallback=call.has_fallback,
        is_urgent=call.is_continuation,
    )
    exchange = event = None
    try:
        exchange = await _start_exchange(request)
        for event in exchange.reply or exchange.first_events:
            yield event
        stream = exchange.stream
        while stream is not None and not stream.finished:
            for event in await stream.next_events():
                yield event
        await exchange.drain()
    finally:
        if exchange is not None:
            exchange.close()
        if permit is not None:
            permit.release(_count_tokens(event))


def _count_tokens(last: Event | None) -> int:
    """Return the tokens of a call whose last event is given; 0 if it did not end."""
    usage = last.usage if isinstance(last, TurnFinished) else None
    return 0 if usage is None else usage.input_tokens + usage.output_tokens


async def post_json(
    source: ProviderSource,
    path: str,
    body: Mapping[str, Any],
    read: Callable[[Any, ProviderSource], T],
    *,
    attempts: list[Attempt] | None = None,
) -> T:
    """Post JSON to an API like OpenAI's, and return the result of `read` on its reply.

    Retries and fills `attempts` as `run` does, and raises the same errors. For invalid
    replies, `read` raises `error_mapping.malformed_reply` or any of
    `error_mapping.PARSE_ERRORS`.
    """
    provider = source.provider
    key = None if provider.api_key is None else provider.api_key.get_secret_value()
    headers = registry.KINDS["openai"].wire.headers(key)
    endpoint_request = EndpointRequest(
        source,
        f"{provider.base_url}{path}",
        _encode(body),
        endpoint_pool.build_headers(provider, {**headers, **trace_context.headers()}),
        read,
    )
    # A failure here concerns no chat model and does not affect its circuit.
    pool = EndpointPool(source.name, provider.model_copy(update=SINGLE_ENDPOINT))
    deadline = CallDeadline(source, stream=False)
    request = _PreparedRequest(
        pool, lambda _: endpoint_request, deadline, [] if attempts is None else attempts
    )
    permit = await provider_limits.acquire(source.name, provider)
    exchange = None
    try:
        exchange = await _start_exchange(request)
        # Set for an exchange without a stream.
        reply: T = exchange.reply  # type: ignore[assignment]
        await exchange.drain()
        return reply
    finally:
        if exchange is not None:
            exchange.close()
        if permit is not None:
            permit.release()


@dataclass(slots=True)
class _PreparedRequest(Generic[T]):
    """The data that all attempts of a call share."""

    pool: EndpointPool
    build_request: Callable[[Endpoint], EndpointRequest[T]]
    """Returns the request for an endpoint."""
    deadline: CallDeadline
    attempts: list[Attempt]


def _prepare(
    name: str,
    provider: ProviderConfig,
    call: ModelRequest,
    attempts: list[Attempt] | None,
) -> _PreparedRequest[Iterable[Event]]:
    parameters = registry.supported_parameters(name, provider, call.parameters)
    if parameters is not call.parameters:
        call = replace(call, parameters=parameters)
    source = ProviderSource(name, provider, call.model)
    bodies: dict[int, bytes] = {}

    def build_request(endpoint: Endpoint) -> EndpointRequest[Iterable[Event]]:
        wire, number = endpoint.wire, endpoint.number
        body = bodies.get(id(wire))
        if body is None:
            body = bodies[id(wire)] = _encode(wire.body(call))
        return EndpointRequest(
            source if number is None else replace(source, endpoint=number),
            endpoint.url,
            body,
            endpoint.headers if call.span is None else _traced(endpoint, call.span),
            wire.read,
            wire if call.stream else None,
        )

    is_slow = provider.kind == "local" or _thinks(call)
    deadline = CallDeadline(
        source, stream=call.stream, has_fallback=call.has_fallback, is_slow=is_slow
    )
    pool = endpoint_pool.find_pool(name, provider, call.model)
    return _PreparedRequest(
        pool, build_request, deadline, [] if attempts is None else attempts
    )


def _traced(endpoint: Endpoint, span: TraceContext) -> Mapping[str, str]:
    return {**endpoint.headers, **span.headers}


def _thinks(call: ModelRequest) -> bool:
    """Return whether a request asks for reasoning, which may come before any piece."""
    effort = call.parameters.get("reasoning_effort")
    return effort not in (None, "none", "minimal") or "thinking" in call.extra_body


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as exc:
        # Lone surrogates and numbers past 64 bits are valid in Python, not in JSON.
        raise Invalid(f"the request cannot be encoded as JSON: {exc}") from exc


async def _start_exchange(request: _PreparedRequest[T]) -> HttpExchange[T]:
    """Return an exchange whose reply has begun, after the allowed number of rounds."""
    rounds = 1
    candidates: Sequence[Endpoint] = request.pool.endpoints
    while True:
        failed: _FailedAttempts = []
        try:
            return await _try_endpoints(request, candidates, failed)
        except ProviderFailed as error:
            retry = _plan_retry(request, candidates, failed, rounds)
            if retry is None:
                raise
            candidates, wait_seconds = retry
            logger.info("retry %d in %.1f s: %s", rounds, wait_seconds, error)
        finally:
            # Their tracebacks refer to this frame and would keep its data alive.
            failed.clear()
        await backoff.sleep(wait_seconds)
        request.deadline.subtract_pause(wait_seconds)
        rounds += 1


async def _try_endpoints(
    request: _PreparedRequest[T],
    candidates: Sequence[Endpoint],
    failed: _FailedAttempts,
) -> HttpExchange[T]:
    """Try each endpoint once, until one answers; collect failures in `failed`."""
    untried = [*candidates]
    while True:
        endpoint = request.pool.choose(untried)
        if endpoint is None:
            raise _best_error(failed) or request.pool.circuit_open_error()
        try:
            return await _try_endpoint(request, endpoint)
        except ProviderFailed as error:
            failed.append((endpoint, error))
            untried.remove(endpoint)
            if request.deadline.seconds_left <= 0:
                raise
            if untried:
                logger.info("endpoint '%s' failed: %s", endpoint.name, error)


def _best_error(failed: _FailedAttempts) -> ProviderFailed | None:
    """Return the error for the caller: retryable first, then the shortest wait."""
    return min(
        (error for _, error in failed),
        key=lambda error: (not error.retryable, _requested_wait_seconds(error)),
        default=None,
    )


def _requested_wait_seconds(error: ProviderFailed) -> float:
    return getattr(error, "retry_after_seconds", None) or 0.0


def _plan_retry(
    request: _PreparedRequest[Any],
    candidates: Sequence[Endpoint],
    failed: _FailedAttempts,
    rounds: int,
) -> tuple[list[Endpoint], float] | None:
    """Return the endpoints to retry and the delay before; None for no retry."""
    waits = ((each, _requested_wait_seconds(e)) for each, e in failed if e.retryable)
    retryable = dict(waits)
    if not retryable or rounds > request.pool.provider.retries:
        return None
    seconds = backoff.delay_seconds(rounds, min(retryable.values()))
    if seconds is None or seconds >= request.deadline.seconds_left:
        return None
    tried = {each for each, _ in failed}
    ready = [
        each
        for each in candidates
        if (retryable.get(each, math.inf) <= seconds or each not in tried)
        and each.circuit.admits(circuit_breaker.now() + seconds)
    ]
    return (ready, seconds) if ready else None


async def _try_endpoint(
    request: _PreparedRequest[T], endpoint: Endpoint
) -> HttpExchange[T]:
    """Send a request; update the endpoint's circuit and the attempt record."""
    exchange = HttpExchange(request.build_request(endpoint), request.deadline)
    circuit = endpoint.circuit
    is_probe = circuit.enter()
    started = time.perf_counter()
    endpoint.waiting += 1
    try:
        await exchange.start()
    except BaseException as exc:
        endpoint.waiting -= 1
        exchange.close()
        _record_attempt(request, endpoint, started, _describe_failure(exc, exchange))
        if request.pool.provider.balance == "latency":
            endpoint.add_failure(time.perf_counter() - started, exc)
        if isinstance(exc, CoulisseError):
            circuit.fail(
                exc,
                request.pool.provider.breaker,
                is_only_endpoint=request.pool.has_single_endpoint,
                is_probe=is_probe,
            )
            circuit_probe.start(request.pool, endpoint)
        else:
            circuit.leave(is_probe=is_probe)
        raise
    endpoint.waiting -= 1
    _record_attempt(request, endpoint, started, None)
    if request.pool.provider.balance == "latency":
        endpoint.add_latency(request.attempts[-1].seconds)
    circuit.succeed()
    return exchange


def _describe_failure(error: BaseException, exchange: HttpExchange[Any]) -> str:
    if isinstance(error, Exception):
        return recorded_text(error)
    return CANCELLED if exchange.is_sent else NOT_SENT


def _record_attempt(
    request: _PreparedRequest[T], endpoint: Endpoint, started: float, error: str | None
) -> None:
    seconds = time.perf_counter() - started
    request.attempts.append(Attempt(endpoint.name, seconds, error))
