"""`telemetry:` in the YAML: defaults as documented, and validation."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from config.errors import ConfigInvalid
from config.loading import loader
from core.trace import ToolKind
from telemetry.config import (
    TELEMETRY,
    FmtConfig,
    RequestLogConfig,
    SqliteConfig,
    TelemetryConfig,
)
from telemetry.metrics.config import MetricsConfig
from telemetry.tracing.config import OtlpConfig
from tests.docs.pages import BASE, blocks, table_rows

BLOCKS: dict[str, type[BaseModel]] = {
    "fmt": FmtConfig,
    "sqlite": SqliteConfig,
    "request_log": RequestLogConfig,
}


@pytest.fixture
def read(tmp_path) -> Callable[[str], TelemetryConfig]:
    def read(text: str) -> TelemetryConfig:
        base = (BASE / "examples/deployment/local.yaml").read_text()
        content = f"{base}\ntelemetry: {text}\n"
        return loader.parse_config(content.encode(), tmp_path / "c.yaml").get(TELEMETRY)

    return read


@pytest.mark.parametrize("text", ["", "{}", "{fmt: {}, sqlite: {}}", "{otlp: }"])
def test_omitted_fields_have_documented_defaults(read, text):
    assert read(text) == TelemetryConfig()


def test_every_switch_is_read(read):
    result = read("{fmt: {enabled: false}, sqlite: {enabled: false, keep_days: 7}}")
    assert (result.fmt.enabled, result.sqlite.enabled) == (False, False)
    assert result.sqlite.keep_days == 7
    assert result.sqlite.show_to_users is False
    assert read("{sqlite: {show_to_users: true}}").sqlite.show_to_users is True


def test_unlimited_retention_is_accepted(read):
    assert read("{sqlite: {keep_days: null}}").sqlite.keep_days is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{otlp: {}}", "'otlp.endpoint'"),
        ("{otlp: {endpoint: 'localhost:4317'}}", "'otlp.endpoint' must be an http://"),
        ("{otlp: {endpoint: 'http://a', protocol: udp}}", "'otlp.protocol' must be"),
        ("{otlp: {endpoint: 'http://a', sample_ratio: 2}}", "'otlp.sample_ratio'"),
        ("{otlp: {endpoint: 'http://a', service_name: ''}}", "'otlp.service_name'"),
        ("{otlp: {endpoint: 'http://a', headers: {'a b': c}}}", "'otlp.headers'"),
        ("{fmt: {level: info}}", "'fmt.level' is not a known field"),
        ("{sqlite: {keep_days: 0}}", "'sqlite.keep_days'"),
        ("{sqlite: {keep_days: forever}}", "'sqlite.keep_days'"),
        ("{sqlite: {max_payload_bytes: 255}}", "'sqlite.max_payload_bytes'"),
        ("{sqlite: {enabled: 3}}", "'sqlite.enabled'"),
        ("{sqlite: {show_to_users: ada}}", "'sqlite.show_to_users'"),
        ("{slow_query_ms: 0}", "'slow_query_ms'"),
        ("{sql: {}}", "'sql' is not a known field; did you mean 'sqlite'"),
    ],
)
def test_invalid_field_is_named(read, text, message):
    with pytest.raises(ConfigInvalid) as refused:
        read(text)
    [problem] = refused.value.problems
    assert f"telemetry: {message}" in problem.message


# The documentation.


def fields() -> dict[str, object]:
    """Return the default of every field, by dotted name."""
    return {
        f"{block}.{name}": field.default
        for block, model in BLOCKS.items()
        for name, field in model.model_fields.items()
    }


def format_default(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_fields_are_documented_with_defaults():
    result = {
        row[0]: row[1] for row in table_rows("telemetry.md", "field of `telemetry`")
    }
    expected = {
        f"`{name}`": f"`{format_default(value)}`" for name, value in fields().items()
    }
    others = {"`levels`": "`{}`", "`slow_query_ms`": "`null`"}
    others |= {"`metrics`": "off", "`otlp`": "none"}
    assert result == {**expected, **others}
    names = {"levels", "slow_query_ms", "metrics", "otlp"}
    assert BLOCKS.keys() | names == TelemetryConfig.model_fields.keys()


def test_fields_of_metrics_are_documented_with_defaults():
    rows = table_rows("metrics.md", "field of `telemetry.metrics`")
    defaults = MetricsConfig().model_dump().items()
    assert {row[0]: row[1] for row in rows} == {
        f"`{name}`": "none" if value is None else f"`{format_default(value)}`"
        for name, value in defaults
    }


def test_otlp_fields_are_documented_with_defaults(read):
    result = {row[0]: row[1] for row in table_rows("telemetry.md", "field of `otlp`")}
    defaults = OtlpConfig(endpoint="http://a").model_dump(exclude={"endpoint"})
    expected = {
        f"`{name}`": f"`{format_default(value)}`" for name, value in defaults.items()
    }
    assert result == {"`endpoint`": "required", **expected}
    [_, text, *_] = blocks(Path(BASE / "docs/telemetry.md"), "yaml")
    given = YAML(typ="safe", pure=True).load(text)["telemetry"]["otlp"]
    assert given | defaults == given | {"headers": {}}


def test_headers_may_be_environment_variables(read, monkeypatch):
    monkeypatch.setenv("OTLP_KEY", "abc")
    text = "{otlp: {endpoint: 'http://a', headers: {x-key: '${OTLP_KEY}'}}}"
    assert read(text).otlp.headers["x-key"].get_secret_value() == "abc"


def test_documented_block_equals_the_defaults(read):
    [text, *_] = blocks(Path(BASE / "docs/telemetry.md"), "yaml")
    given = YAML(typ="safe", pure=True).load(text)["telemetry"]
    assert given == TelemetryConfig().model_dump(exclude={"metrics", "otlp"})


def test_tour_starter_shows_every_field():
    tour = (BASE / "config/starters/tour.yaml").read_text()
    block = tour[tour.index("\ntelemetry:") :]
    names = [name.split(".")[1] for name in fields()]
    for name in [*names, "levels", "otlp", *OtlpConfig.model_fields]:
        assert re.search(rf"\b{name}:", block), name


def test_tool_kinds_are_documented():
    result = {row[0].strip("`") for row in table_rows("telemetry.md", "`kind`")}
    assert result == set(get_args(ToolKind))
