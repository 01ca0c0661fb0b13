"""Who uses the demo: people of `demo.example`, a domain nobody can have."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from access.users import identity
from core.ids import UserId

DOMAIN = "demo.example"
MOST = 100_000
"""People there can be; who they are does not depend on the seed."""

FIRST = """
Ada Bram Chiara Dario Elif Farid Greta Hugo Ines Jonas Kaja Luca Maren Noor Olga Paul
Quirin Rosa Samir Tilda Ugo Vera Wim Xenia Yara Zeno Amira Bela Celeste Dmitri Esther
Felix Gwen Hana Ivo June Kofi Lea Miguel Nadia Oscar Petra Rafael Sofia Tarek Ursula
Viktor Wanda Yusuf Zofia
""".split()  # noqa: SIM905  a list of theirs has fifty lines
LAST = """
Almeida Becker Costa Dumont Eriksen Ferrari Gomez Haddad Ivanova Jansen Kowalski
Lindqvist Moreau Novak Okafor Pereira Quinn Rossi Sato Tamm Ueda Vasquez Weber Xu
Yilmaz Zimmermann Abe Bianchi Cohen Duarte Engel Fischer Garcia Hansen Ibsen Jung
Keller Lopes Meyer Nunes Olsen Popescu Ricci Silva Torres Ulrich Varga Wolf Young
""".split()  # noqa: SIM905
VISITOR, STAFF, TEACHER = (
    ("welcome",),
    ("dramaturg", "rota", "translator"),
    ("school-desk", "welcome"),
)
"""Whom people write to: agents and experiments."""
KINDS = (VISITOR, VISITOR, STAFF, VISITOR, TEACHER)
"""Of five, one after the other."""
QUIET = 0.75
"""How quickly people speak less, by their rank; 0 is not at all."""


@dataclass(frozen=True)
class SampleUser:
    """One of them."""

    number: int

    @property
    def first(self) -> str:
        return FIRST[self.number % len(FIRST)]

    @property
    def name(self) -> str:
        """What clients send as `safety_identifier`."""
        last = LAST[(self.number // len(FIRST) + self.number) % len(LAST)]
        again = self.number // (len(FIRST) * len(LAST))
        count = f".{again + 1}" if again else ""
        return f"{self.first}.{last}{count}@{DOMAIN}".lower()

    @property
    def writes_to(self) -> Sequence[str]:
        """The agents and experiments this one has anything to do with."""
        return KINDS[self.number % len(KINDS)]

    @cached_property
    def user_id(self) -> UserId:
        return identity.derive_user_id(self.name)


def list_users(count: int) -> list[SampleUser]:
    """Return the first so many."""
    return [SampleUser(number) for number in range(count)]


def synthetic_user(number: int) -> UserId:
    """Return the user of a smoke test's run; there are as many as people."""
    return identity.derive_user_id(f"smoke-{number}@{DOMAIN}")


def all_ids(count: int, at_once: int = 500) -> Iterator[list[UserId]]:
    """Yield the ids of so many people, and of all synthetic ones, some at a time."""
    for start in range(0, count, at_once):
        numbers = range(start, min(start + at_once, count))
        yield [SampleUser(number).user_id for number in numbers]
    if count:
        yield from ([synthetic_user(n) for n in numbers] for numbers in HUNDREDS)


RUNS = 1_000
"""Synthetic users there can be."""
HUNDREDS = [range(start, start + 100) for start in range(0, RUNS, 100)]


def split_total(count: int, total: int) -> Sequence[int]:
    """Return how much of a total each of so many does: a few do most of it."""
    weights = [*accumulate((rank + 3) ** -QUIET for rank in range(count))]
    ends = [round(total * each / weights[-1]) for each in weights]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
