"""Random keys are distinguished from human-made text."""

import base64
import random
import string
import uuid

import pytest

from core.text import entropy

ALNUM = string.ascii_letters + string.digits
BY_PEOPLE = [
    "",
    "hunter22",
    "hunter22hunter22hunter22hunter22",
    "CorrectHorseBatteryStaple",
    "correct horse battery staple and many words more",
    "MeinHundHeisstRexUndIstLieb",
    "C0rr3ctH0rs3B4tt3rySt4pl3",
    "P@ssw0rdP@ssw0rdP@ssw0rd123!",
    "My2DogsEat4Bones7DaysAWeek",
    "Summer2024Winter2025Autumn2026Spring2027",
    "TheQuickBrownFoxJumpsOverTheLazyDog",
    "lechatestassissurletapisdusalon",
    "KissaIstuuMatollaJaNukkuu",
    "WlazlKotekNaPlotekIMrugaLadnaToPiosenka",
    "watashinonamaewatanakadesu",
    "wojiaolimingwoshizhongguoren",
    "evdekihesapcarsiyauymazderlerdogruymus",
    "ключ-от-дверей-моего-дома-на-углу",
    "123456789012345678901234567890",
    "198411052019062220230101198411052019",
    "qwertyuiopasdfghjklzxcvbnm123456",
    "1q2w3e4r5t6y7u8i9o0p1q2w3e4r",
    "zaq12wsxcde34rfvbgt56yhnmju7",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "x9kQ2x9kQ2x9kQ2x9kQ2x9kQ2x9kQ2",
    "key-of-openai-1",
    "acme-corp-prod-eu-west-1-build-hook-secret",
    "coulisse-prod-9f86d081884c7d659a",
    "johann.sebastian.bach.1685-1750@leipzig.example",
]


@pytest.mark.parametrize("secret", BY_PEOPLE)
def test_human_made_secrets_are_weak(secret):
    assert not entropy.is_strong(secret)
    assert not entropy.is_strong(f"{secret}1!")


def _of(alphabet: str, length: int) -> str:
    return "".join(random.choices(alphabet, k=length))


KEYS = {
    "24 letters and digits": (lambda: _of(ALNUM, 24), 0.95),
    "32 letters and digits": (lambda: _of(ALNUM, 32), 0.98),
    "urlsafe": (lambda: _of(ALNUM + "-_", 43), 0.99),
    "sk-": (lambda: f"sk-proj-{_of(ALNUM, 48)}", 0.99),
    "gsk_": (lambda: f"gsk_{_of(ALNUM, 52)}", 0.99),
    "base64": (lambda: base64.b64encode(random.randbytes(30)).decode(), 0.99),
    "24 hex": (lambda: random.randbytes(12).hex(), 0.98),
    "32 hex": (lambda: random.randbytes(16).hex(), 0.99),
    "64 HEX": (lambda: random.randbytes(32).hex().upper(), 0.99),
    "uuid": (lambda: str(uuid.UUID(int=random.getrandbits(128))), 0.98),
}


@pytest.mark.parametrize("kind", KEYS)
def test_random_keys_are_strong(kind):
    make, share = KEYS[kind]
    random.seed(kind)
    found = [entropy.is_strong(make()) for _ in range(1000)]
    assert sum(found) >= share * len(found)


@pytest.mark.parametrize("length", [8, 12, 16, 19])
def test_short_secrets_are_weak(length):
    random.seed(length)
    assert not any(entropy.is_strong(_of(ALNUM, length)) for _ in range(100))


def test_long_secrets_are_judged_by_their_beginning():
    assert entropy.entropy_bits("x9" * 10**7) == entropy.entropy_bits("x9" * 1000)
