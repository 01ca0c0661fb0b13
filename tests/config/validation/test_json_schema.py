import json

import pytest
from django.conf import settings
from django.core.management import call_command
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML


@pytest.fixture
def schema_errors(capsys):
    """What the schema says about a YAML text."""

    def errors_of(text):
        call_command("schema")
        schema = json.loads(capsys.readouterr().out)
        Draft202012Validator.check_schema(schema)
        document = YAML(typ="safe", pure=True).load(text)
        return [
            error.message
            for error in Draft202012Validator(schema).iter_errors(document)
        ]

    return errors_of


@pytest.fixture
def schema(capsys):
    call_command("schema")
    return json.loads(capsys.readouterr().out)


def test_schema_is_draft_2020_and_closed(schema):
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["cooks"]


@pytest.mark.usefixtures("real_sections")
def test_schema_describes_keys_and_fields(schema):
    server = schema["properties"]["server"]
    assert "restart" in server["description"]
    assert all(
        field["description"] for field in server["anyOf"][0]["properties"].values()
    )
    assert all(key["description"] for key in schema["properties"].values())


@pytest.mark.usefixtures("real_sections")
def test_file_for_editors_is_current(schema):
    """`make schema` writes it."""
    path = settings.BASE_DIR / "coulisse.schema.json"
    assert json.loads(path.read_text()) == schema, "run `make schema`"


@pytest.mark.parametrize(
    "text",
    [
        "cooks: [{name: ann, pace: 1.5, oven: {heat: 3}}]",
        "cooks: [{name: ann, pace: '${PACE}', oven: '${OVEN}'}]",
        "cooks: []\nkitchen: {stoves: '${N:-3}', open: '${OPEN}', fuel: '${FUEL}'}",
        "cooks: []\nmenu: {tea: 'x ${PRICE}'}",
        "cooks: []\nkitchen:",
    ],
)
def test_schema_accepts_valid_files(schema_errors, text):
    assert schema_errors(text) == []


@pytest.mark.usefixtures("real_sections")
def test_schema_accepts_provider_by_name_alone(schema_errors):
    agents = "agents: [{name: a, provider: local, model: m}]\n"
    assert schema_errors(agents + "providers:\n  local:\n") == []
    assert schema_errors(agents + "providers:\n  local: 1\n")


@pytest.mark.parametrize(
    "text",
    [
        "cooks: [{nme: ann}]",
        "cooks: [{name: ann, pace: fast}]",
        "cooks: [{name: ann, pace: '$${X'}]",
        "cooks: []\nkitchen: {stoves: 10}",
        "cooks: []\nkitchen: {fuel: wood}",
        "cooks: []\njudges: [a]",
        "cooks: []\nport: 8421",
        "cooks:",
        "menu: {}",
    ],
)
def test_schema_refuses_invalid_files(schema_errors, text):
    assert schema_errors(text)
