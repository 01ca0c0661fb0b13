"""Errors when a fallback cannot answer, or all models fail."""

from core import trace
from core.errors import Invalid
from providers.errors import (
    Overloaded,
    RateLimited,
)
from tests.agents.fallback_harness import TWO, Stage, text
from tests.agents.test_loop import Tool

# A fallback without support for the request.


async def test_fallback_without_parameter_support_is_skipped(fake, spare, last):
    stage = Stage(fake, spare, last, kinds=("openai", "anthropic", "openai"))
    fake.fail(500)
    assert text(await stage.take(requested={"logit_bias": {"5": 1}}, fallbacks=TWO))
    assert spare.requests == []
    passed_over = stage.record[1]
    assert "does not support 'logit_bias'" in passed_over.error
    assert passed_over.attempts == []


async def test_skipped_fallbacks_leave_the_original_error(fake, spare, last):
    stage = Stage(fake, spare, last, kinds=("openai", "anthropic", "openai"))
    fake.fail(503)
    error = await stage.fails(requested={"logit_bias": {"5": 1}})
    assert isinstance(error, Overloaded)
    assert "does not support 'logit_bias'" in error.message


async def test_prompt_too_long_for_a_fallback_tries_the_next(stage, fake, spare):
    fake.fail(500)
    spare.fail(400, "the prompt is too long")
    assert text(await stage.take(fallbacks=TWO)) == "Hello from the fake."


async def test_parameter_refused_by_own_provider_is_reported(fake, spare, last):
    stage = Stage(fake, spare, last, kinds=("anthropic", "openai", "openai"))
    error = await stage.fails(requested={"logit_bias": {"5": 1}})
    assert isinstance(error, Invalid)
    assert error.param == "logit_bias"
    assert spare.requests == []


# Failure of all models.


async def test_first_error_is_raised_with_details_of_the_others(
    stage, fake, spare, last
):
    fake.fail(429, "slow down", headers={"Retry-After": "3"})
    spare.fail(401)
    last.fail(503, "busy")
    error = await stage.fails(fallbacks=TWO)
    assert isinstance(error, RateLimited)
    assert error.retry_after_seconds == 3
    assert (error.provider, trace.count_attempts(stage.record)) == ("first", 3)
    for part in ("the rate limit", "spare/m2: provider 'spare' refused", "last/m3: "):
        assert part in error.message
    for part in ("slow down", "spare/m2: check ", "last/m3: its message: busy"):
        assert part in error.detail
        assert part not in error.message
    assert [ok for _, ok in stage.calls] == [False, False, False]
    assert "spare" not in stage.record[0].error


async def test_provider_failure_outranks_a_fallback_refusal(stage, fake, spare):
    fake.fail(500)
    spare.call_tool("add", {})
    spare.fail(400, "the prompt is too long")
    fake.fail(503, "busy")
    error = await stage.fails(Tool("add"))
    assert isinstance(error, Overloaded)
    assert error.provider == "first"
    assert "too long" in error.message


async def test_error_without_fallbacks_is_unchanged(stage, fake):
    fake.fail(500, "boom")
    error = await stage.fails(fallbacks=[])
    assert (
        str(error) == "provider 'first' failed (HTTP 500) [details: its message: boom]"
    )
