"""What a request's messages are: the whole conversation, or its newest part."""

from typing import Literal

History = Literal["auto", "server", "client", "none"]
"""`auto`: decided by the messages. `server`: the stored conversation continues with the
new messages. `client`: the request is the whole conversation. `none`: the same, and
nothing is read, stored or extracted."""
HistoryMode = Literal["server", "client", "none"]
"""A history setting for one request."""
CHOICES: tuple[History, ...] = ("auto", "server", "client", "none")
