"""The regular expressions of the product, with the texts that they are slowest on."""
# ruff: noqa: RUF001  words of many scripts

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from access.limits import dollars
from config.editing import document, secret_masks
from config.loading import placeholders
from config.validation import suggestions
from core.runtime.request_ids import ACCEPTED_ID
from core.text import lenient_json, time_parsing
from core.text.injection import injection_filter, rule_filter
from core.validation import tool_names
from imports import chatgpt
from judges.scoring import verdict_parser
from mcp_bridge.tools import result_conversion
from memory.extraction import quote_check
from memory.facts.text_comparison import sentence_parser
from memory.recall.index import tokenizer
from providers.embeddings import hash_embedder
from safety.detection import personal_data

Use = Callable[[str], Any]
Text = tuple[str, str, str]
"""What a text begins with, what is repeated in it, and what it ends with."""


@dataclass(frozen=True)
class Case:
    """How a pattern is used, and the texts it is slowest on."""

    use: str | Use
    """A method of the pattern, or a function that uses it."""
    texts: tuple[str | Text, ...]


def case(use: str | Use, *texts: str | Text) -> Case:
    return Case(use, texts)


WORDS = ("a", " ", "1", "1.1,", "中", "é", "\u0300", "'s", "n't", "-", "🎉", "_")
"""Texts for all branches of patterns that split texts."""

DATA_URLS: tuple[str | Text, ...] = (
    "data:",
    ("data:", "a", ""),
    ("data:a/", "a", ""),
    ("data:a/a", ";a", ""),
    ("data:a/a;", "a", ""),
    ("data:a/a", ";", ""),
)

PROVEN = {
    "access.limits.dollars.parse_usd": case(
        dollars.parse_usd, "1", ("1.", "1", "x"), "-"
    ),
    "access.users.identity.CANONICAL_UUID": case("fullmatch", "a", "00000000-"),
    "files.uploads.form.ENCODED": case("search", "%0A", "%0"),
    "files.uploads.form.PATH_SEPARATORS": case("split", "/", "a"),
    "agents.tool_set.REFUSAL": case("search", "tool", "function", "functionxcal"),
    "agents.tool_set.UNSUPPORTED": case("search", "not allowed", "not ", "not allowe"),
    "imports.chatgpt.CITATION": case(
        lambda text: chatgpt.CITATION.sub("", text),
        "\ue200",
        "\ue200a",
        "\ue200\ue201",
        ("\ue200", "a", ""),
    ),
    "imports.chatgpt.MEMBER": case(
        "fullmatch", "conversations", ("conversations-", "0", "")
    ),
    "core.ids.UUID_PATTERN": case("fullmatch", "a", "task-", "chatcmpl-", "-"),
    "core.text.time_parsing._parse": case(
        lambda text: time_parsing.parse_past(text, datetime.now(UTC)),
        "1",
        "h",
        ("1", " ", "h"),
        "2020-01-01",
        ("2020-01-01T", "1", ""),
    ),
    "admin_base.formats.data_formats.NOT_IN_YAML": case("all", "\x7f", "a"),
    "admin_base.formats.data_formats.RESERVED": case("all", "a"),
    "gateway.openai.responses.output_items.ITEM_ID_PATTERN": case(
        "fullmatch", "a", "msg_", "0", ("msg_" + "0" * 32 + "_", "1", "x")
    ),
    "config.validation.http_values.NAME_PATTERN": case(
        "fullmatch", "a", ("", "a", ":")
    ),
    "config.validation.http_values.UNSENDABLE": case("search", "a"),
    "config.editing.blocks.ANCHOR": case("match", " ", "\t", (" &", "a", "[")),
    "config.editing.document.ANCHOR_BEFORE_VALUE": case(
        "match", "&", "&a ", ("&a", " ", "")
    ),
    "config.editing.blocks.ALIAS": case("match", " ", (" *", "a", "[")),
    "config.editing.blocks.COMMENT_LINE": case("match", " ", "#", ("", " ", "a")),
    "config.editing.round_trip.LIST_BELOW_KEY": case(
        "search", " ", "a:\n", "a: ", ":", "a", ("a:\n", " #\n", ""), ("a:\n", " ", "")
    ),
    "config.editing.round_trip.MAP_BELOW_KEY": case(
        "search", " ", "a:\n", "a: ", ":", "a", ("a:\n", " #\n", ""), ("a:\n", " ", "")
    ),
    "config.errors.MISSING_TARGET": case("search", ", which ", ", ", ", but", "a"),
    "config.editing.secret_masks.COMMENT": case("all", "#", " #", "\n", "#\n"),
    "config.editing.secret_masks.COMMENTED_FIELD": case(
        "match",
        ("#", "-", ""),
        ("#", "-a", ""),
        ("#k: ", "a", " x"),
        ("#k: a", " ", "x"),
        ("#k:", " ", ""),
        ("#", "'", ""),
        ("#k: ", "a #", "\n"),
    ),
    "config.loading.placeholders.TOKEN": case(
        placeholders.hide, "${", "$${", "${a}", "$${a}", ("${", "a", ""), "$", "$${a"
    ),
    "config.loading.placeholders.OPENING": case("all", "$", "${", "$${"),
    "config.loading.placeholders._hidden_token": case(
        lambda text: [*placeholders.hidden_spans(placeholders._hide(text))],
        "${",
        "$${",
        "${a}",
        "$${a}",
        ("${", "a", ""),
        "$",
        "a",
    ),
    "config.loading.placeholders.HIDDEN_OPENING": case("all", "\U00100024", "a"),
    "config.loading.placeholders.NAME_PATTERN": case(
        "fullmatch", "vars.", "a", ("", "a", "!"), "a:-", ("a:-", "b", "\n")
    ),
    "config.loading.placeholders.ENVIRONMENT_NAME": case(
        "fullmatch", "a", ("", "a", "!")
    ),
    "config.loading.placeholders._resolve": case(
        lambda text: re.sub(r"\n(?=[^\n])", "\n ", text), "\n", "\na"
    ),
    "config.loading.secret_values.SECRET_NAME": case("search", "pas", "a", "signatur"),
    "config.validation.validator._wrong_message": case(
        lambda text: re.findall("'([^']*)'", text), "'", ("'", "a", ""), "a"
    ),
    "config.validation.validator._is_secret": case(
        lambda text: re.split(r"[_-]", text), "_", "a"
    ),
    "core.validation.storable_values.UNSTORABLE": case("all", "a", "\0"),
    "config.loading.constructor.SURROGATE": case("search", "a", "😀"),
    "core.text.lenient_json.CODE_FENCE": case(
        lambda text: [*lenient_json.parse_candidates(text)],
        "`",
        "```",
        "```json",
        ("```", "`", ""),
    ),
    "core.network.private_hosts.NUMBER": case("fullmatch", "1", "0x", ("0x", "a", "!")),
    "core.runtime.request_ids.ACCEPTED_ID": case(
        lambda t: ACCEPTED_ID.fullmatch(t.encode()), "a", "é"
    ),
    "core.runtime.trace_context.STATE": case("fullmatch", "a", "é"),
    "core.runtime.trace_context.TRACEPARENT": case(
        "fullmatch", "00-", ("00-" + "a" * 32 + "-" + "b" * 16 + "-01-", "a", "\n")
    ),
    "core.validation.tool_names.UNSAFE": case(tool_names.to_safe_name, "a", "é"),
    "gateway.auth.authentication.TOKEN_PATTERN": case(
        "fullmatch", "sk-coulisse-", ("sk-coulisse-", "a", "!")
    ),
    "gateway.request_validation.media_data.IMAGE_DATA_PATTERN": case(
        "match", "a", "data:image/"
    ),
    "gateway.request_validation.media_data.SCHEME_PATTERN": case(
        "match", "a", "1", "a:"
    ),
    "gateway.request_validation.media_data.HOST_PATTERN": case(
        "fullmatch", "a", "a.", "[", ("[", ":", ""), ("a:", "1", ""), ("", "a", "!")
    ),
    "core.network.hosts.PORT_PATTERN": case("all", ":", "1", (":", "1", "x"), ":1"),
    "judges.scoring.verdict_parser.FRACTION": case(
        "fullmatch",
        " ",
        "1",
        "1 ",
        ("1", " ", "x"),
        ("1 /", " ", "x"),
        ("1", "1", "x"),
        ("1.", "1", "x"),
        ("1 out of 1", "1", "x"),
        ("1 out of 1", " ", "x"),
    ),
    "judges.scoring.verdict_parser.normalize_name": case(
        verdict_parser.normalize_name, "_", " ", "- ", "a"
    ),
    "mcp_bridge.oauth.authorization_server.discovery.CHALLENGE": case(
        "all", "scope=", 'scope="', "scope=a", ('scope="', "a", ""), "-scope=", "a"
    ),
    "mcp_bridge.config.SERVER_NAME": case("fullmatch", "a"),
    "mcp_bridge.tools.result_conversion._format_type": case(
        result_conversion._format_type, "a", "!", " "
    ),
    "memory.extraction.date_parsing.DATE_PATTERN": case("fullmatch", "1", "1111-11-11"),
    "memory.facts.public_ids.PATTERN": case("fullmatch", "a", "fact_"),
    "memory.facts.fact_validation.CONTROL_CHARACTERS": case("all", "a", "\x01"),
    "memory.facts.fact_validation.NO_WORD": case("all", "a", " ", "_"),
    "memory.recall.index.tokenizer.PIECE": case(
        "all", *WORDS, ("", "1", "a"), ("", "1.1,", "中"), "🇦", "ऀ々", "1中", "11a"
    ),
    "memory.recall.index.tokenizer.ASCII_WORD": case(
        "all", "a", "1", "1.", ("", "1", "a"), "1a", "1,1a"
    ),
    "memory.recall.index.tokenizer.THOUSANDS": case(
        "fullmatch", "1", "1,111", ",111", ("1", ",111", "1")
    ),
    "memory.recall.index.tokenizer.AFTER_QUESTION": case(
        tokenizer.is_question, "!", "?!"
    ),
    "memory.recall.index.tokenizer._number_terms": case(
        tokenizer._number_terms, "1", "1.", "."
    ),
    "memory.recall.index.tokenizer._character_bigrams": case(
        tokenizer._character_bigrams, "中", "ア", "가"
    ),
    "memory.recall.index.tokenizer._is_word": case(
        tokenizer._character_bigrams, "中", "ア"
    ),
    "core.text.injection.deobfuscation.GAP": case("all", " ", "\x01", "   a", "a"),
    "core.text.injection.deobfuscation.SPACED": case(
        "all", *WORDS, "a ", "a  ", "a b c ", "a b c de ", ("", "a ", "bc"), "a...."
    ),
    "core.text.injection.deobfuscation.BETWEEN": case("all", *WORDS, "a "),
    "core.text.injection.deobfuscation.ZERO_WIDTH": case("all", "a", "\u200b"),
    "core.text.injection.deobfuscation.WORD": case("all", *WORDS, "a1"),
    "memory.recall.index.tokenizer.SUBJECT_PATTERN": case(
        "match", " ", "the ", ("the", " ", ""), ("user", " ", "")
    ),
    "memory.extraction.quote_check.UNSPACED": case("search", *WORDS),
    "core.text.injection.injection_filter.INVISIBLE": case("search", *WORDS),
    "core.text.injection.injection_filter.SENTENCE_END": case(
        injection_filter.SENTENCE_END.split, ". ", ".", "。", "\n"
    ),
    "memory.facts.text_comparison.sentence_parser.HAS_UNSPACED": case("search", *WORDS),
    "memory.facts.text_comparison.sentence_parser.PIECE": case(
        "all", *WORDS, " -1", "1:", "1111-11-", "NOT", "c++", "11.1."
    ),
    "memory.facts.text_comparison.sentence_parser.THOUSANDS": case(
        "fullmatch", "1", "1,111", ("1", ",111", "1")
    ),
    "memory.facts.text_comparison.sentence_parser.PAST": case(
        "search", *WORDS, "wa", "use", "had "
    ),
    "memory.facts.text_comparison.sentence_parser.PUNCTUATION": case(
        "all", *WORDS, ".", "--a", "''", "-1", ("a", ".", "a"), ("a", "-", "a"), ".-"
    ),
    **{
        f"memory.facts.text_comparison.sentence_parser.CONTRACTIONS#{n}": case(
            lambda text, n=n: sentence_parser.CONTRACTIONS[n][0].sub("", text),
            *WORDS,
            "can",
            "won'",
            "n'",
            "qu'",
            "1s",
            "left-",
        )
        for n in range(8)
    },
    **{
        f"memory.facts.text_comparison.sentence_parser.UNSPACED_FORMS#{n}": case(
            lambda text, n=n: sentence_parser.UNSPACED_FORMS[n][0].sub("", text),
            "用户",
            "ユーザー",
            "没",
            "では",
            "じゃない",
            "なくなった",
            "ている",
            "ま",
            "的",
        )
        for n in range(9)
    },
    "providers.wires.anthropic_body.VERSION_IN_NAME": case(
        "search", "claude-", "claude-a", ("claude-", "a", ""), ("claude-", "1", "")
    ),
    "providers.wires.anthropic_body.UNUSUAL_IN_ID": case("all", "a", "!"),
    "providers.wires.anthropic_body.DATA_URL": case(
        "match", *DATA_URLS, ("data:a/a;base64,", "a", "")
    ),
    "providers.embeddings.embedders.INVALID_CHARACTERS": case("all", "a", "\0"),
    "providers.wires.openai.SIGNATURE_REQUIRED_MODELS": case("search", "gemini-", "a"),
    "providers.wires.tool_images.DATA_URL_HEAD": case("match", *DATA_URLS),
    "providers.embeddings.hash_embedder.TOKEN": case("all", *WORDS, "aé", "中a"),
    "triggers.webhooks.prompt_templates.PLACEHOLDER": case(
        "all", "{", "{{", "{{a", "{{a}", ("{{", "a", ""), "{{{a}}"
    ),
    "turns.preparation.reply_language.TAG_PATTERN": case(
        "fullmatch", "a", "a-", ("", "a-", "!"), "-"
    ),
}
"""Patterns that see what clients, models, tools, pages of others or forms send."""

OPERATORS = {
    "admin_base.model_pages.view_factory.PARAMETER",  # the studio's own addresses
    "admin_base.model_pages.view_factory._operation_prefix",  # the same
    "access.users.user_namespace.UUID_PATTERN",  # secrets.env
    "agents.skills.loader.NAME_PATTERN",  # names of directories
    "agents.skills.parser.FRONTMATTER",  # SKILL.md
    "config.config._check_origin",  # coulisse.yaml, disjoint character classes
    "gateway.asgi.request_entry.ROUTE_PARAMETER",  # the server's own routes
    "imports.coulisse.tokens.DIGEST",  # the operator's own database
    "imports.litellm.budgets.DURATION",  # the operator's own files
    "imports.litellm.keys.DIGEST",  # the same
    "imports.litellm.new_file.REFERENCE",  # the same
    "imports.litellm.source.SECRET_HEADER",  # the same
    "files.config.TYPE_PATTERN",  # coulisse.yaml
    "config.starters.starter_file.comments_above",  # the starters of the package
    "core.text.entropy.HEX",  # secrets of coulisse.yaml
    "core.text.entropy.WORD",  # secrets of coulisse.yaml
    "demo.dialogues.PLACEHOLDER",  # the demo's own texts
    "config.validation.http_values._web_address",  # coulisse.yaml, one character class
    "providers.config.normalize_url",  # coulisse.yaml, disjoint character classes
    "studio.openapi.document._error_statuses",  # the studio's own addresses
    "telemetry.log_output.slow_queries.LITERAL",  # the server's own SQL
    "telemetry.log_output.slow_queries.PLACEHOLDERS",  # the same
    "telemetry.log_output.slow_queries.ROWS",  # the same
}
"""Patterns that only see the operator's own files, or texts of the package."""

ELSEWHERE = {
    "core.text.redaction": "tests/core/test_redaction.py",
}
"""Modules whose patterns have tests of their own."""


def known(doc_of: str) -> Use:
    """Return what reads and masks a YAML with a text in it."""

    def read(text: str) -> None:
        doc = document.parse_document(doc_of.format(text).encode())
        secret_masks.mask_document.__wrapped__(doc)

    return read


RARE = "".join(map(chr, range(0x4E00, 0x4E00 + 150)))
"""Each character is less than a hundredth of the text, so difflib compares them all."""

FUNCTIONS: dict[str, Case] = {
    "personal_data.find_personal_data": case(
        lambda text: list(
            personal_data.find_personal_data(text, [*personal_data.KINDS])
        ),
        "1",
        "1 ",
        "4111 ",
        "AB12",
        "AB12 ",
        "a@",
        "a.",
        "a@b.cc ",
        ":a",
        "+1 ",
        "0 ",
    ),
    "suspicion.why_held": case(
        lambda text: injection_filter.find_injection(text, text),
        "https://",
        "https://a",
        "ignore ",
        "forget x ",
        "<system",
        "http://x ",
        "a. ",
        "你。",
        "![",
        "i g n o r e ",
        "ⅰ",
        "\u0300",
        "prefers replies ",
    ),
    "rule_filter.find_violation": case(
        lambda text: rule_filter.find_violation(text, text),
        "act as ",
        'say "',
        "send x ",
        "all x ",
        "without x ",
        "你",
    ),
    "suspicion.is_about_assistant": case(
        injection_filter.is_about_assistant, "ai ", "as an ai "
    ),
    "suspicion.without_orders": case(
        injection_filter.remove_instructions,
        "https://",
        "a. ",
        "。",
        "i g n. ",
        "あなたは。",
    ),
    "quotes.fold": case(quote_check.normalize, "a", "ﷺ", "\u0300"),
    "quotes.is_from": case(
        lambda text: quote_check.is_quoted_from("a" * (len(text) // 2) + "b", text),
        "a",
        "ab",
    ),
    "wording.fold": case(sentence_parser.normalize, *WORDS, "ﷺ"),
    "wording.read": case(
        sentence_parser.parse_sentence.__wrapped__, *WORDS, "1 may 2020 ", "not ", "没"
    ),
    "lexicon.terms": case(tokenizer.tokenize, *WORDS, "ﷺ"),
    "word_hash.tokens": case(lambda text: [*hash_embedder.tokenize(text)], *WORDS, "ﷺ"),
    "loose_json.readings": case(
        lambda text: [*lenient_json.parse_candidates(text)],
        "{",
        "[",
        "{}",
        "[]",
        '{"a":',
        "```{",
    ),
    "spelling.did_you_mean": case(
        lambda text: suggestions.did_you_mean(text, [text[::-1]]), RARE, "a"
    ),
    "config of placeholders": case(
        known('a: "{}"\n'), "${{", "$${{", "${{A}}", "${{vars.a}}", ("${{A", ":-", "}}")
    ),
    "config of comments": case(
        known("a: b\n#{}\n"), "-", "# ", " #", ("k: ", "a", " #")
    ),
    "config of secrets": case(
        lambda text: secret_masks._compile_finder(text.split()).search(text),
        "secretvalue ",
        "a b ",
    ),
}
"""What looks at texts in other ways, or through several patterns."""
