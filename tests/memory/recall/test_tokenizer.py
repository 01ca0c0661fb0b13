"""The search terms of texts in many languages."""

import threading
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.recall.index import tokenizer

HEART = "\u2764\ufe0f"
FLAG = "\U0001f1f5\U0001f1f9"
THUMB = "\U0001f44d"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The user lives in Lisbon", ["user", "live", "lisbon"]),
        ("I don't like O'Brien's cats", ["like", "brien", "cat"]),
        ("running, runs, ran", ["run", "run", "ran"]),
        ("snake_case and gpt4", ["snake", "case", "gpt4"]),
        ("vitamin C", ["vitamin", "c"]),
        ("K\u00e4the hei\u00dft K\u00c4THE", ["kath", "heisst", "kath"]),
        ("\u0130stanbul \ufb01ne \uff26ull", ["istanbul", "fine", "full"]),
        (
            "\u041c\u043e\u0441\u043a\u0432\u0430",
            ["\u043c\u043e\u0441\u043a\u0432\u0430"],
        ),
    ],
)
def test_words_are_folded_and_stemmed(text, found):
    assert tokenizer.tokenize(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2024-05-03", ["2024", "5", "3"]),
        ("03.05.2024", ["3", "5", "2024"]),
        ("10:30", ["10", "30"]),
        ("1,000 and 1.000.000", ["1000", "1000000"]),
        ("3.5 or 3,5", ["3.5", "3.5"]),
        ("007 0", ["7", "0"]),
        ("the 12th", ["12th"]),
        ("\u0663\u0661 \u096b", ["31", "5"]),
    ],
)
def test_numbers_and_dates_are_kept(text, found):
    assert tokenizer.tokenize(text) == found


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("\u6211\u7684\u732b\u5f88\u53ef\u7231", "\u732b"),
        ("\u6211\u559c\u6b22\u5403\u82f9\u679c", "\u82f9\u679c"),
        ("\u732b\u304c\u597d\u304d", "\u732b\u3092\u98fc\u3063\u3066\u3044\u308b"),
        ("\uace0\uc591\uc774\uac00 \uc788\ub2e4", "\uace0\uc591\uc774\ub97c"),
        (
            "\u0e1c\u0e21\u0e0a\u0e2d\u0e1a\u0e01\u0e34\u0e19\u0e02\u0e49\u0e32\u0e27",
            "\u0e02\u0e49\u0e32\u0e27",
        ),
        ("\u0623\u064f\u062d\u0650\u0628\u0651", "\u0627\u062d\u0628"),
        (f"love {HEART} it", "\u2764"),
        (f"I am from {FLAG}", FLAG),
        (f"ok {THUMB}\U0001f3fd", THUMB),
    ],
)
def test_stored_and_asked_forms_share_a_term(stored, asked):
    assert set(tokenizer.tokenize(stored)) & set(tokenizer.tokenize(asked))


@pytest.mark.parametrize(
    "text",
    [
        "what is it that you would have been",
        "was ist das und wer sind sie",
        "o que voc\u00ea tem",
        "",
        "?! ... \u2014",
    ],
)
def test_stop_words_yield_no_terms(text):
    assert tokenizer.tokenize(text) == []


def test_stop_words_of_other_languages_are_kept():
    assert tokenizer.tokenize("my son will come by car") == ["son", "come", "car"]


def test_long_texts_and_words_are_truncated():
    found = tokenizer.tokenize("word" * 30_000 + " tail" * 30_000)
    assert len(found) == tokenizer.MAX_TERMS
    assert max(map(len, found)) == tokenizer.MAX_LENGTH


@given(st.text())
def test_terms_of_any_text_are_found_again(text):
    found = tokenizer.tokenize(text)
    assert all(term and len(term) <= tokenizer.MAX_LENGTH for term in found)
    assert tokenizer.tokenize(unicodedata.normalize("NFD", text)) == tokenizer.tokenize(
        unicodedata.normalize("NFC", text)
    )


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_tokenizer_equals_unicode_tokenizer(text):
    assert tokenizer._tokenize_ascii(text.lower()) == tokenizer._tokenize_unicode(
        tokenizer._fold(text)
    )


@pytest.mark.parametrize(
    "text",
    [
        "Where?",
        "Really?! \U0001f600",
        'She said "why?"',
        "\u672c\u5f53\u3067\u3059\u304b\uff1f",
        "\u0644\u0645\u0627\u0630\u0627\u061f",
    ],
)
def test_question_is_detected(text):
    assert tokenizer.is_question(text)


@pytest.mark.parametrize("text", ["", "No.", "Who? Me.", "I asked why", "?x"])
def test_statement_is_not_a_question(text):
    assert not tokenizer.is_question(text)


def test_threads_share_the_stemmer():
    words = [f"running{n}s walks{n}ing" for n in range(2_000)]
    alone = [tokenizer.tokenize(word) for word in words]
    tokenizer._stem.cache_clear()
    results: list[list[list[str]]] = []

    def work() -> None:
        results.append([tokenizer.tokenize(word) for word in words])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [alone] * 4
