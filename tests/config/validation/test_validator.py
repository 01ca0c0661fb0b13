import pytest


def cook_message(refusal, cook: str) -> list[str]:
    """Return the problems of a cook with these fields, without positions."""
    lines = refusal(f"cooks: [{{name: ann, {cook}}}]\nmenu: {{tea: 1}}\n").splitlines()
    return [line.split(": ", 1)[1] for line in lines]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            "specialty: x",
            "'specialty' is not a known field; did you mean 'speciality'?",
        ),
        (
            "zzz: x",
            "'zzz' is not a known field; known fields: name, speciality, api_key, "
            "headers, dishes, oven, pace, boss, knives",
        ),
        ("pace: fast", "'pace' must be a number, not 'fast'"),
        ("pace: [1]", "'pace' must be a number, not a list"),
        ("speciality: yes: no", ""),
        ("speciality: null", "'speciality' must be text, not an empty value"),
        ("dishes: tea", "'dishes' must be a list, not 'tea'"),
        ("dishes: [3, [a]]", "'dishes[1]' must be text, not a list"),
        ("dishes: [a, b, c]", "'dishes' must be a list of at most 2 entries"),
        ("knives: {a: 1, b: 2}", "'knives' must be a map of at most 1 entries"),
        ("oven: [1]", "'oven' must be true or false or a map of fields, not a list"),
        ("oven: {heat: x}", "'oven.heat' must be a whole number, not 'x'"),
        ("oven: {}", "'oven.heat' is missing"),
        (
            "oven: {heat: 1, hat: 2}",
            "'oven.hat' is not a known field; did you mean 'heat'?",
        ),
        ("pace: " + "x" * 50, f"'pace' must be a number, not '{'x' * 39}…'"),
    ],
)
def test_invalid_field_error_names_the_problem(refusal, fields, expected):
    if expected:
        assert cook_message(refusal, fields) == [f"cook 'ann': {expected}"]
    else:
        assert "not valid YAML" in refusal(f"cooks: [{{{fields}}}]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cooks: 3", "1:1: cooks: must be a list, not 3"),
        ("cooks: {a: b}", "1:1: cooks: must be a list, not a map"),
        ("cooks: [ann]", "1:9: cook 1: must be a map of fields, not 'ann'"),
        ("cooks: [{}]", "1:9: cook 1: 'name' is missing"),
        ("cooks: [{name: ''}]", "1:10: cook 1: 'name' must not be empty"),
    ],
)
def test_unnamed_entry_is_identified_by_position(refusal, text, expected):
    assert refusal(text + "\n") == f"coulisse.yaml:{expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kitchen: {stoves: 10}", "kitchen: 'stoves' must be at most 9, not 10"),
        ("kitchen: {stoves: 1.5}", "kitchen: 'stoves' must be a whole number, not 1.5"),
        (
            "kitchen: {stoves: true}",
            "kitchen: 'stoves' must be a whole number, not true",
        ),
        ("menu: {tea: false}", "dish 'tea': must be a whole number, not false"),
        ("kitchen: {open: 3}", "kitchen: 'open' must be true or false, not 3"),
        (
            "kitchen: {fuel: gass}",
            "kitchen: 'fuel' must be one of 'electricity' or 'gas', not 'gass'; "
            "did you mean 'gas'?",
        ),
        ("menu: {tea: hot}", "dish 'tea': must be a whole number, not 'hot'"),
    ],
)
def test_invalid_section_error_names_the_problem(refusal, text, expected):
    message = refusal(f"cooks: [{{name: ann}}]\n{text}\n")
    assert message.split(": ", 1)[1] == expected


@pytest.mark.parametrize("value", ["[sk-secret]", "{sk-secret: 1}"])
def test_errors_never_show_secret_fields(refusal, value):
    (message,) = cook_message(refusal, f"api_key: {value}")
    assert message.startswith("cook 'ann': 'api_key' must be text")
    assert "sk-secret" not in message


@pytest.mark.parametrize("value", ["sk-secret", "'${UNSET_AUTH:-sk-secret}'"])
def test_errors_never_show_values_of_secret_like_names(refusal, value):
    (message,) = cook_message(refusal, f"headers: {{X-Auth: {value}}}")
    assert message == "cook 'ann': 'headers.X-Auth' must be a whole number"


def test_errors_never_show_placeholder_values(refusal, monkeypatch):
    monkeypatch.setenv("DB_URL", "sk-secret")
    (message,) = cook_message(refusal, "pace: ${DB_URL}")
    assert (
        message
        == "cook 'ann': 'pace' must be a number, but the value of '${DB_URL}' is not"
    )


def test_errors_suggest_nothing_from_placeholder_values(refusal, monkeypatch):
    monkeypatch.setenv("FUEL", "gass")
    assert "did you mean" not in refusal("kitchen: {fuel: '${FUEL}'}\n")
