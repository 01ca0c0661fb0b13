"""The users of the demo, with addresses at the reserved domain `demo.example`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from access.users import identity
from core.ids import UserId

DOMAIN = "demo.example"
MAX_SYNTHETIC_USERS = 1_000
MAX_USERS = 100_000
"""Maximum number of users; their names do not depend on the seed."""

FIRST = """
Ada Bram Chiara Dario Elif Farid Greta Hugo Ines Jonas Kaja Luca Maren Noor Olga Paul
Quirin Rosa Samir Tilda Ugo Vera Wim Xenia Yara Zeno Amira Bela Celeste Dmitri Esther
Felix Gwen Hana Ivo June Kofi Lea Miguel Nadia Oscar Petra Rafael Sofia Tarek Ursula
Viktor Wanda Yusuf Zofia
""".split()  # noqa: SIM905  as a list it has fifty lines
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
"""The agents and experiments that a kind of user writes to."""
KINDS = (VISITOR, VISITOR, STAFF, VISITOR, TEACHER)
"""The kinds of every five users, in order."""
RANK_EXPONENT = 0.75
"""How quickly the number of turns falls with a user's rank; 0 means not at all."""


@dataclass(frozen=True)
class SampleUser:
    number: int

    @property
    def first(self) -> str:
        return FIRST[self.number % len(FIRST)]

    @property
    def name(self) -> str:
        """What clients send as `safety_identifier`."""
        last = LAST[(self.number // len(FIRST) + self.number) % len(LAST)]
        repetition = self.number // (len(FIRST) * len(LAST))
        count = f".{repetition + 1}" if repetition else ""
        return f"{self.first}.{last}{count}@{DOMAIN}".lower()

    @property
    def agents(self) -> Sequence[str]:
        """The agents and experiments that this user writes to."""
        return KINDS[self.number % len(KINDS)]

    @cached_property
    def user_id(self) -> UserId:
        return identity.derive_user_id(self.name)


def list_users(count: int) -> list[SampleUser]:
    """Return the first `count` users."""
    return [SampleUser(number) for number in range(count)]


def synthetic_user(number: int) -> UserId:
    """Return the synthetic user of a smoke run."""
    return identity.derive_user_id(f"smoke-{number}@{DOMAIN}")


def all_ids(count: int, batch_size: int = 500) -> Iterator[list[UserId]]:
    """Yield the ids of the first users and of all synthetic ones, in batches."""
    ids = [SampleUser(number).user_id for number in range(count)]
    if count:
        ids += [synthetic_user(number) for number in range(MAX_SYNTHETIC_USERS)]
    for start in range(0, len(ids), batch_size):
        yield ids[start : start + batch_size]


def split_total(count: int, total: int) -> Sequence[int]:
    """Split a total among users; a few of them have most of it."""
    weights = [*accumulate((rank + 3) ** -RANK_EXPONENT for rank in range(count))]
    ends = [round(total * each / weights[-1]) for each in weights]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]
