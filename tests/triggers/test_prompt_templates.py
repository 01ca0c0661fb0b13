"""Placeholders in prompts."""

import pytest

from triggers.webhooks import prompt_templates
from triggers.webhooks.prompt_templates import PathMissing

PAYLOAD = {
    "sender": {"name": "Ada", "id": 7},
    "items": [{"title": "first"}, {"title": "second"}],
    "is_open": True,
    "none": None,
    "nasty": "{{sender.name}}",
    "with space": "yes",
}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("No placeholders", "No placeholders"),
        ("{{sender.name}} came", "Ada came"),
        ("{{ sender.name }}", "Ada"),
        ("{{sender.id}}, {{is_open}}, {{none}}", "7, true, null"),
        ("{{sender}}", '{"name":"Ada","id":7}'),
        ("{{items.1.title}}", "second"),
        ("{{with space}}", "yes"),
        # Placeholders in inserted values are not expanded.
        ("{{nasty}}", "{{sender.name}}"),
        ("{{sender.age}} {{missing.name}}", "{{ sender.age }} {{ missing.name }}"),
        ("{{items.2.title}} {{items.-1}}", "{{ items.2.title }} {{ items.-1 }}"),
        ("{{sender.name.first}} {{.}}", "{{ sender.name.first }} {{ . }}"),
        ("{sender.name} {{}} {{sender.name}", "{sender.name} {{}} {{sender.name}"),
    ],
)
def test_placeholders_are_filled(template: str, filled: str):
    assert prompt_templates.render(template, PAYLOAD) == filled


@pytest.mark.parametrize("template", ["{{sender.age}}", "to {{none}}", "{{items.9}}"])
def test_strict_render_names_the_missing_path(template: str):
    with pytest.raises(PathMissing) as missing:
        prompt_templates.render(template, PAYLOAD, is_strict=True)
    assert missing.value.path in template


def test_payload_may_be_a_non_object():
    assert prompt_templates.render("{{0}} {{a}}", ["x"]) == "x {{ a }}"
    assert prompt_templates.render("{{a}}", "text") == "{{ a }}"
