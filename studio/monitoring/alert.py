"""What the home page tells operators to look at."""

from pydantic import BaseModel, Field


class Alert(BaseModel):
    """An alert."""

    level: str = Field(description="`bad` or `warn`.")
    message: str
    details: str = Field("", description="The cause, or the remedy.")
    address: str = Field("", description="The page about it.")
