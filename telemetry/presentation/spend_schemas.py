"""The response about costs."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from telemetry.presentation.turn_serializers import to_usd
from telemetry.statistics import cost_totals
from telemetry.statistics.cost_totals import CostTotal, Dimension, Kind


class SpendTotal(BaseModel):
    """Total spending."""

    turns: int | None = Field(
        None, description="Missing for models and providers, which have `calls`."
    )
    calls: int | None = None
    input_tokens: int
    output_tokens: int
    cost_usd: float = Field(description="Without the unpriced calls.")
    judgements: int
    embeddings: int = Field(
        description="Requests that embedded texts with an API, outside turns."
    )
    unpriced_turns: int | None = Field(None, description="Turns without a price.")
    unpriced_calls: int | None = None
    unpriced_judgements: int
    unpriced_embeddings: int
    cache_read_tokens: int | None = Field(
        None, description="By model: the input that was read from its cache."
    )
    cache_saved_usd: float | None = Field(
        None, description="By model: what the cache saved, at current prices."
    )

    @classmethod
    def of(cls, by: Dimension, total: CostTotal, **fields: Any) -> Self:
        """Return the object of a total by a dimension."""
        unit = cost_totals.counted_unit(by)
        fields |= {unit: total.turns, f"unpriced_{unit}": total.unpriced}
        if by == "model":
            fields["cache_read_tokens"] = total.cache_read_tokens
            fields["cache_saved_usd"] = to_usd(total.saved_micro_usd)
        return cls(
            **fields,
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            cost_usd=to_usd(total.micro_usd) or 0.0,
            judgements=total.judgements,
            embeddings=total.embeddings,
            unpriced_judgements=total.unpriced_judgements,
            unpriced_embeddings=total.unpriced_embeddings,
        )


class SpendRow(SpendTotal):
    """The spending of one group; the field `by` has its key."""

    agent: str | None = None
    day: str | None = None
    model: str | None = None
    provider: str | None = None
    token: str | None = None
    user: str | None = None
    kind: Kind


class Spending(BaseModel):
    """Spending since an instant."""

    object: Literal["spending"] = "spending"
    by: Dimension
    since: datetime
    data: list[SpendRow]
    total: SpendTotal
    notes: list[str] = Field(description="Gaps in the turn record.")

    @classmethod
    def serialize_totals(
        cls,
        by: Dimension,
        since: datetime,
        totals: Sequence[CostTotal],
        notes: Sequence[str],
    ) -> dict[str, Any]:
        """Return the totals by a dimension as JSON; rows have no other fields."""
        spending = cls(
            object="spending",
            by=by,
            since=since.astimezone(UTC),
            data=[
                SpendRow.of(by, each, **{by: each.key, "kind": each.kind})
                for each in totals
            ],
            total=SpendTotal.of(by, cost_totals.sum_totals(totals)),
            notes=list(notes),
        )
        return spending.model_dump(mode="json", exclude_unset=True)
