"""Storage of scores, and means from an index."""

import statistics
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from core.ids import UserId, new_turn_id
from judges.models import Feedback, Score
from judges.ratings import scores
from judges.ratings.scores import JudgedReply, ScoreStats
from judges.scoring.verdict_parser import JudgeResult
from tests.memory.user_data.sample_user import AT

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("database")]


@pytest.fixture
def judge() -> str:
    return f"judge-{uuid.uuid4().hex[:8]}"


def store_score(
    judge: str, value: int, *, agent="a", experiment="", turn_id=None, **more
):
    judged = JudgedReply(
        turn_id or new_turn_id(),
        more.get("user_id", UserId(uuid.uuid4())),
        judge,
        agent,
        experiment,
    )
    scores.store_scores(judged, {"tone": JudgeResult(value, "Because.")})
    return judged


def test_means_and_variances_match_the_scores(judge):
    values = [0, 3, 7, 10, 10, 4]
    for value in values:
        store_score(judge, value)
    store_score(judge, 2, agent="b")
    found = scores.stats_by_agent(judge, "tone", ["a", "b", "c"], since=None)
    assert found.keys() == {"a", "b"}
    assert found["a"].mean == pytest.approx(statistics.mean(values))
    assert found["a"].variance == pytest.approx(statistics.variance(values))
    assert found["b"] == ScoreStats(1, 2, 4)
    assert found["b"].variance == 0


def test_stats_without_scores_are_zero():
    assert (ScoreStats(0, 0, 0).mean, ScoreStats(0, 0, 0).variance) == (0.0, 0.0)


def test_stats_are_filtered_by_time_and_experiment(judge):
    store_score(judge, 1)
    store_score(judge, 5, experiment="trial")
    now = datetime.now(UTC)
    assert scores.stats_by_agent(judge, "tone", ["a"])["a"].count == 2
    in_experiment = scores.stats_by_agent(
        judge, "tone", ["a"], since=None, experiment="trial"
    )
    assert in_experiment == {"a": ScoreStats(1, 5, 25)}
    assert (
        scores.stats_by_agent(judge, "tone", ["a"], since=now + timedelta(hours=1))
        == {}
    )
    assert scores.stats_by_agent(judge, "grammar", ["a"]) == {}
    assert scores.stats_by_agent(judge, "tone", []) == {}


@pytest.mark.parametrize("experiment", [None, "trial"])
def test_means_are_one_query_over_a_covering_index(judge, experiment):
    with CaptureQueriesContext(connection) as queries:
        scores.stats_by_agent(
            judge, "tone", ["a", "b"], since=AT, experiment=experiment
        )
    (query,) = queries
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN QUERY PLAN " + query["sql"])
            plan = " ".join(str(row) for row in cursor.fetchall())
        assert "COVERING INDEX judges_score_means" in plan


def test_repeated_judgement_replaces_the_score(judge):
    first = store_score(judge, 3)
    scores.store_scores(first, {"tone": JudgeResult(9, "On second thought.")})
    (row,) = scores.scores_of_turns([first.turn_id])
    assert (row.value, row.reasoning) == (9, "On second thought.")


def test_scores_of_turns_are_grouped_by_turn_judge_and_criterion(judge):
    turn = new_turn_id()
    store_score(f"{judge}-z", 3, turn_id=turn)
    store_score(f"{judge}-a", 4, turn_id=turn)
    store_score(judge, 5)
    found = [(row.judge, row.value) for row in scores.scores_of_turns([turn])]
    assert found == [(f"{judge}-a", 4), (f"{judge}-z", 3)]
    assert scores.scores_of_turns([]) == []


def test_newest_scores_of_a_user_come_first(judge):
    user_id = UserId(uuid.uuid4())
    for value in (1, 2, 3):
        store_score(judge, value, user_id=user_id)
    assert [row.value for row in scores.recent_scores(user_id, 2)] == [3, 2]
    (line,) = scores.summarize_scores(user_id=user_id)
    assert (line.stats, line.lowest, line.highest) == (ScoreStats(3, 6, 14), 1, 3)


def test_agent_mean_covers_all_its_judges(judge):
    agent = f"of {judge}"
    for name, value in ((judge, 3), (judge, 4), (f"{judge}-z", 8)):
        store_score(name, value, agent=agent)
    assert scores.overall_stats_by_agent(AT)[agent] == ScoreStats(3, 15, 89)
    assert agent not in scores.overall_stats_by_agent(
        datetime.now(UTC) + timedelta(hours=1)
    )


@pytest.mark.parametrize("value", [-1, 11])
def test_score_beyond_the_scale_is_refused(judge, value):
    with pytest.raises(IntegrityError), transaction.atomic():
        store_score(judge, value)
    assert not Score.objects.filter(judge=judge).exists()


@pytest.mark.parametrize(
    "rating", [{}, {"score": 5, "thumb": "up"}, {"score": 11}, {"thumb": "sid"}]
)
def test_feedback_requires_a_score_or_a_thumb(rating):
    with pytest.raises(IntegrityError), transaction.atomic():
        Feedback.objects.create(
            user_id=uuid.uuid4(),
            turn_id=uuid.uuid4(),
            agent="a",
            created_at=AT,
            updated_at=AT,
            **rating,
        )
