"""Turns of one conversation at the same time: nothing is lost, mixed or refused."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from access.users import identity
from memory.models import StoredMessage
from tests.gateway.calls import body, post, user_message

pytestmark = pytest.mark.database

TURNS = 12


def replied(text):
    return {"role": "assistant", "content": text}


def say(server, fake, user, answer, *messages, **more):
    fake.reply(answer)
    response = post(server, body(user, messages=messages, **more))
    assert response.status_code == 200, response.text


def send_at_once(server, fake, requests):
    for number in range(len(requests)):
        fake.reply(f"reply {number}")
    with ThreadPoolExecutor(len(requests)) as pool:
        responses = list(pool.map(lambda request: post(server, request), requests))
    assert {each.status_code for each in responses} == {200}


def rows(user):
    found = StoredMessage.objects.filter(
        thread__user_id=identity.derive_user_id(user)
    ).order_by("position")
    return list(found.values_list("thread__name", "text", "is_active"))


@pytest.mark.parametrize("options", [{}, {"metadata": {"thread_id": "t"}}])
def test_different_questions_become_branches(server, fake, user, options):
    say(server, fake, user, "other", user_message("another conversation"))
    say(server, fake, user, "a1", user_message("q1"), **options)
    start = [user_message("q1"), replied("a1")]
    questions = [f"q2 of {number}" for number in range(TURNS)]
    requests = [
        body(user, messages=[*start, user_message(text)], **options)
        for text in questions
    ]
    send_at_once(server, fake, requests)
    stored = rows(user)
    own = {name for name, text, _ in stored if text in questions}
    assert len(own) == 1
    replies = [f"reply {number}" for number in range(TURNS)]
    texts = [text for name, text, _ in stored if name in own]
    assert Counter(texts) == Counter(["q1", "a1", *questions, *replies])
    current = [text for name, text, is_active in stored if name in own and is_active]
    assert current[:2] == ["q1", "a1"]
    assert len(current) == len(start) + 2


def test_same_question_is_stored_once(server, fake, user):
    say(server, fake, user, "other", user_message("another conversation"))
    say(server, fake, user, "a1", user_message("q1"))
    messages = [user_message("q1"), replied("a1"), user_message("q2")]
    send_at_once(server, fake, [body(user, messages=messages)] * TURNS)
    assert Counter(text for _, text, _ in rows(user))["q2"] == 1


def test_first_conversations_of_a_user_stay_current(server, fake, user):
    requests = [
        body(
            user, messages=[user_message(f"q{number}"), replied("a"), user_message("x")]
        )
        for number in range(TURNS)
    ]
    send_at_once(server, fake, requests)
    assert len({name for name, _, _ in rows(user)}) == TURNS
    assert all(is_active for _, _, is_active in rows(user))
