"""What turns add to the metrics."""

from pathlib import Path

from core.events import Usage
from core.trace import CANCELLED, Attempt
from telemetry.metrics import exposition
from telemetry.metrics import recorder as recorders
from telemetry.metrics.process_files import ProcessFiles
from telemetry.metrics.recorder import MAX_SERIES, Recorder
from telemetry.types import Diagnostics, TurnRecord
from tests.telemetry.metrics.scrapes import Scrape
from tests.telemetry.sample_turns import make_record, model_call, tool_call

GPT = {"provider": "openai", "model": "gpt-test"}


def scrape(directory: Path) -> Scrape:
    body, _ = exposition.render("application/openmetrics-text", directory, [])
    return Scrape(body.decode())


def end_turn(recorder: Recorder, record: TurnRecord) -> None:
    recorder.turn_ended(record, ("turn_id", record.turn_id))


def test_turn_counts_its_duration_outcome_tokens_and_cost(recorder, directory):
    record = make_record(model_call(), seconds=3.0)
    end_turn(recorder, record)
    found = scrape(directory)
    assistant = {"agent": "assistant", **GPT}
    assert found.value("coulisse_turns_total", outcome="ok", **assistant) == 1
    assert found.value("coulisse_turn_seconds_sum", **assistant) == 3
    assert found.value("coulisse_turn_seconds_bucket", le="2.5", **assistant) == 0
    assert found.value("coulisse_turn_seconds_bucket", le="5.0", **assistant) == 1
    tokens = {
        kind: found.value("coulisse_tokens_total", kind=kind, **assistant)
        for kind in ("input", "output", "cache_read", "cache_write", "reasoning")
    }
    assert tokens == {
        "input": 100,
        "output": 20,
        "cache_read": 64,
        "cache_write": 32,
        "reasoning": 8,
    }
    assert found.value("coulisse_cost_usd_total", **assistant) == 125 / 1_000_000
    assert found.value("coulisse_unpriced_calls_total", **assistant) == 0


def test_first_token_is_measured_for_streams_only(recorder, directory):
    waited = Diagnostics(first_event_seconds=0.4)
    end_turn(recorder, make_record(model_call(), diagnostics=waited))
    name = "coulisse_time_to_first_token_seconds"
    assert scrape(directory).value(f"{name}_count", **GPT) == 0
    end_turn(recorder, make_record(model_call(), diagnostics=waited, is_streamed=True))
    assert scrape(directory).value(f"{name}_count", **GPT) == 1
    assert scrape(directory).value(f"{name}_sum", **GPT) == 0.4


def test_calls_of_subagents_count_for_them(recorder, directory):
    inner = model_call("helper", model="small", cost_micro_usd=None)
    end_turn(recorder, make_record(tool_call("helper", inner), model_call()))
    found = scrape(directory)
    assert found.value("coulisse_tokens_total", agent="helper", kind="input") == 100
    assert found.value("coulisse_unpriced_calls_total", agent="helper") == 1
    assert found.value("coulisse_turns_total", agent="helper", outcome="ok") == 0
    assert found.value("coulisse_turns_total", agent="assistant", outcome="ok") == 1


def test_attempts_retries_and_rescues_count_by_model(recorder, directory):
    attempts = [Attempt("", 0.1, "down"), Attempt("", 0.2)]
    broken = model_call(attempts=attempts, is_continued=True)
    cancelled = model_call(attempts=[Attempt("", 0.1, CANCELLED)], usage=None)
    end_turn(recorder, make_record(broken, cancelled, outcome="cancelled"))
    found = scrape(directory)
    requests = {
        outcome: found.value("coulisse_provider_requests_total", outcome=outcome, **GPT)
        for outcome in ("ok", "error", "cancelled")
    }
    assert requests == {"ok": 1, "error": 1, "cancelled": 1}
    assert found.value("coulisse_provider_retries_total", **GPT) == 1
    assert found.value("coulisse_rescues_total", **GPT) == 1
    assert found.value("coulisse_turns_total", outcome="cancelled", **GPT) == 1


def test_turn_without_a_model_has_none(recorder, directory):
    end_turn(recorder, make_record(outcome="error"))
    found = scrape(directory)
    labels = {"agent": "assistant", "provider": "", "model": ""}
    assert found.value("coulisse_turns_total", outcome="error", **labels) == 1


def test_negative_counts_of_providers_do_not_decrease_counters(recorder, directory):
    end_turn(recorder, make_record(model_call(usage=Usage(-5, 3))))
    found = scrape(directory)
    assert found.value("coulisse_tokens_total", kind="input") == 0
    assert found.value("coulisse_tokens_total", kind="output") == 3


def test_many_agents_and_long_names_stay_within_the_files(recorder, directory):
    name = "é" * 300
    for number in range(MAX_SERIES + 20):
        agent = f"{number}{name}"
        end_turn(recorder, make_record(model_call(agent), agent=agent))
    found = scrape(directory)
    agents = found.labels("coulisse_turns_total", "agent")
    assert len(agents) == MAX_SERIES + 1
    assert max(map(len, agents)) == recorders.MAX_LABEL_LENGTH
    assert found.value("coulisse_turns_total", agent="other", outcome="ok") == 20
    sizes = {path.stat().st_size for path in directory.glob("*.db")}
    assert len(sizes) == 1  # None has grown.


def measure(recorder: Recorder) -> None:
    end_turn(recorder, make_record(model_call(), seconds=1.0))
    recorder.set_gauge("turns_running", "Running turns.", 2)


def test_values_of_all_processes_are_summed(recorder, directory):
    measure(recorder)
    other = Recorder(ProcessFiles(directory, "worker"))
    measure(other)
    found = scrape(directory)
    assert found.value("coulisse_turns_total", outcome="ok") == 2
    assert found.value("coulisse_turn_seconds_sum") == 2
    assert found.value("coulisse_turns_running", process="worker-0") == 2
    assert found.value("coulisse_processes", role="worker") == 1
    other.close()
    found = scrape(directory)
    assert found.value("coulisse_turns_total", outcome="ok") == 2
    assert found.labels("coulisse_turns_running", "process") == {"web-0"}
    assert found.value("coulisse_processes", role="worker") == 0


def test_successor_continues_the_counters(recorder, directory):
    first = Recorder(ProcessFiles(directory, "worker"))
    end_turn(first, make_record(model_call()))
    first.close()
    second = Recorder(ProcessFiles(directory, "worker"))
    end_turn(second, make_record(model_call()))
    assert scrape(directory).value("coulisse_turns_total", outcome="ok") == 2
    second.close()


def test_exemplars_name_the_last_turn_of_a_bucket(recorder, directory):
    records = [make_record(model_call(), seconds=seconds) for seconds in (3, 4, 7)]
    for record in records:
        end_turn(recorder, record)
    recorder.turn_ended(make_record(model_call(), seconds=7), None)
    recorder.turn_ended(make_record(model_call(), seconds=900), ("trace_id", "ab" * 16))
    recorder.exemplars.save()
    found = scrape(directory)
    assert found.exemplars("coulisse_turn_seconds_bucket") == {
        "5.0": ("turn_id", records[1].turn_id.hex),
        "10.0": ("turn_id", records[2].turn_id.hex),
        "+Inf": ("trace_id", "ab" * 16),
    }
    text, _ = exposition.render("", directory, [])
    assert records[2].turn_id.hex not in text.decode()


def test_newest_exemplar_of_all_processes_is_shown(recorder, directory):
    end_turn(recorder, make_record(model_call(), seconds=3))
    recorder.exemplars.save()
    worker = Recorder(ProcessFiles(directory, "worker"))
    newest = make_record(model_call(), seconds=3)
    end_turn(worker, newest)
    worker.exemplars.save()
    found = scrape(directory).exemplars("coulisse_turn_seconds_bucket")
    assert found == {"5.0": ("turn_id", newest.turn_id.hex)}
    worker.close()
