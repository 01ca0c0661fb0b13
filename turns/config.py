"""The YAML's `history:`: how requests and stored conversations fit together."""

from typing import Annotated

from pydantic import Field

from config.sections import Section
from core.history import History

HISTORY: Section[History] = Section(
    key="history",
    shape=Annotated[
        History,
        Field(
            description="`auto` (the default): a request with a reply in it is the "
            "whole conversation, any other continues the stored one. `server`: only "
            "the messages after the last reply count, and continue the stored one. "
            "`client`: each request is the whole conversation. `none`: the same, and "
            "nothing is read, stored or extracted. Agents, API tokens and requests may "
            "differ.",
        ),
    ],
    default=lambda: "auto",
)
