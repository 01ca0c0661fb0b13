"""The four kinds of entries that the studio may change.

Every kind has the same views (`studio/configuration/entry_views.py`). This module
defines the differences: the columns of its list, and the data below the configuration
on its detail page, which responses to scripts also include.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from agents.config import AGENTS as AGENTS_SECTION
from agents.config import AgentConfig
from config.sections import Section
from experiments.config import EXPERIMENTS as EXPERIMENTS_SECTION
from experiments.config import ExperimentConfig
from judges.config import JUDGES as JUDGES_SECTION
from judges.config import JudgeConfig
from smoke.config import SMOKE_TESTS as SMOKE_TESTS_SECTION
from smoke.config import SmokeTestConfig
from studio.configuration import agent_details
from studio.evaluation import experiment_results, judge_details, smoke_details

Details = BaseModel | Mapping[str, Any]
DetailsLoader = Callable[[str, Any], Details]


@dataclass(frozen=True)
class EntryKind:
    section: Section[Any]
    config_class: type[Any]
    """The model of an entry, for the API's description."""
    path: str
    """The path below `/admin/`, and the prefix of its templates below `studio/`."""
    title: str
    description: str
    """The purpose of the entries, shown under the title."""
    icon: str
    starter_yaml: str
    """The form's initial text for a new entry; names in braces come from the file."""
    columns: tuple[tuple[str, str], ...]
    """Columns of the list between the name and the label: titles and CSS classes."""
    load_overview: Callable[[], Mapping[str, Details]]
    """Returns the overview of all entries, by name, in a fixed number of queries."""
    load_details: DetailsLoader
    """Returns the details of one entry, by its name and value; the value is None if the
    entry is not in effect."""

    @property
    def list_url(self) -> str:
        return f"/admin/{self.path}"

    def entry_url(self, name: str) -> str:
        return f"{self.list_url}/{quote(name, safe='')}"

    @property
    def row_template(self) -> str:
        """The list cells of an `entry`, with its `overview`."""
        return f"studio/{self.path}/_row.html"

    @property
    def detail_template(self) -> str:
        """Included below the configuration of an entry, with `details` and `entry`."""
        return f"studio/{self.path}/_details.html"

    @property
    def actions_template(self) -> str:
        """Its own buttons, included in the header of an entry."""
        return f"studio/{self.path}/_actions.html"


AGENTS = EntryKind(
    section=AGENTS_SECTION,
    config_class=AgentConfig,
    path="agents",
    title="Agents",
    description="Models with instructions and tools that answer requests.",
    icon="smart_toy",
    columns=(
        ("Model", "is-wide"),
        ("Uses", "is-wide"),
        ("Turns, 24 h", "number"),
        ("Cost, 24 h", "number is-wide"),
    ),
    load_overview=agent_details.load_overview,
    load_details=agent_details.load_details,
    starter_yaml="""\
name: helper
provider: {provider}
model: {model}
preamble: |
  You are a helpful assistant.
""",
)
JUDGES = EntryKind(
    section=JUDGES_SECTION,
    config_class=JudgeConfig,
    path="judges",
    title="Judges",
    description="Models that score replies by your criteria.",
    icon="gavel",
    columns=(
        ("Model", "is-wide"),
        ("Criteria", "is-wide"),
        ("Sampling rate", "number is-wide"),
        ("Scores, 7 d", "number is-wide"),
        ("Mean", "number"),
    ),
    load_overview=judge_details.load_overview,
    load_details=judge_details.load_details,
    starter_yaml="""\
name: usefulness
provider: {provider}
model: {model}
sampling_rate: 0.2
rubrics:
  helpful: Whether the reply does what was asked.
""",
)
EXPERIMENTS = EntryKind(
    section=EXPERIMENTS_SECTION,
    config_class=ExperimentConfig,
    path="experiments",
    title="Experiments",
    description="Several agents under one name; each request goes to one of them.",
    icon="science",
    columns=(
        ("Strategy", "is-wide"),
        ("Variants, 7 d", "is-wide"),
        ("Turns, 7 d", "number"),
    ),
    load_overview=experiment_results.load_overview,
    load_details=experiment_results.load_details,
    starter_yaml="""\
name: comparison
strategy: split
variants:
  - agent: {agent}
    weight: 1
  - agent: {another}
    weight: 1
""",
)
SMOKE_TESTS = EntryKind(
    section=SMOKE_TESTS_SECTION,
    config_class=SmokeTestConfig,
    path="smoke",
    title="Smoke tests",
    description="Synthetic users that test your agents in conversations.",
    icon="theater_comedy",
    columns=(
        ("Target", "is-wide"),
        ("Last runs", ""),
        ("Scores", "is-wide"),
        ("Last and next start", "is-wide"),
    ),
    load_overview=smoke_details.load_overview,
    load_details=smoke_details.load_details,
    starter_yaml="""\
name: first-words
target: {agent}
persona:
  provider: {provider}
  model: {model}
  preamble: |
    You are new here and want to know what this can do for you.
    When you know, say "[FIN]".
stop_marker: "[FIN]"
max_turns: 5
""",
)

KINDS = (AGENTS, EXPERIMENTS, JUDGES, SMOKE_TESTS)
BY_SECTION = {kind.section.key: kind for kind in KINDS}
