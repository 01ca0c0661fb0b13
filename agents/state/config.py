"""An agent's `state:` in the YAML."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Reducer = Literal["append", "last", "merge", "replace", "union"]
ValueType = Literal["boolean", "list", "number", "object", "text"]

MAX_FIELDS = 32
MAX_NAME_LENGTH = 64
MAX_ITEMS = 1000
DEFAULT_ITEMS = 100
RESET = "reset"
"""The tool's parameter beside those that fields name."""
REDUCED_TYPES: dict[Reducer, ValueType] = {
    "append": "list",
    "last": "list",
    "merge": "object",
    "union": "list",
}
"""The type of value that a reducer needs; `replace` takes any."""


class StateField(BaseModel):
    """A field of the state of an agent's conversation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reducer: Reducer = Field(
        default="replace",
        description="How a new value changes the stored one: `replace` it, `append` "
        "to a list, keep the `last` n items, form the `union` of lists without "
        "duplicates, or `merge` an object by its keys, of which null removes one.",
    )
    type: ValueType | None = Field(
        default=None,
        description="The type of the value. Unset: that of the reducer; any with "
        "`replace`.",
    )
    items: Literal["number", "object", "text"] = Field(
        default="text", description="The type of the items of a list."
    )
    max: int | None = Field(
        default=None,
        ge=1,
        le=MAX_ITEMS,
        description="With `append` and `union`: the maximum number of items; older "
        f"ones are dropped. Unset: {DEFAULT_ITEMS}.",
    )
    n: int | None = Field(
        default=None,
        ge=1,
        le=MAX_ITEMS,
        description="Required with `last`: the number of items kept.",
    )
    description: str = Field(
        default="",
        max_length=1000,
        description="The purpose of the field, for the model.",
    )

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        needed = REDUCED_TYPES.get(self.reducer)
        if needed is not None and self.type not in (None, needed):
            raise ValueError(
                f"'{self.reducer}' needs values of the type {needed}, not {self.type}; "
                "remove 'type'"
            )
        if (self.n is not None) != (self.reducer == "last"):
            raise ValueError("'n' is the number of items of 'last': set both or none")
        if self.max is not None and self.reducer not in ("append", "union"):
            raise ValueError(f"'max' has no effect with '{self.reducer}'; remove it")
        if "items" in self.model_fields_set and self.value_type != "list":
            raise ValueError("'items' is for lists; remove it, or set 'type: list'")
        return self

    @property
    def value_type(self) -> ValueType | None:
        """The type of its values; None is any."""
        return self.type or REDUCED_TYPES.get(self.reducer)

    @property
    def max_items(self) -> int:
        return self.n or self.max or DEFAULT_ITEMS


def _check_name(name: str) -> str:
    if not (name.isascii() and name.isidentifier()) or len(name) > MAX_NAME_LENGTH:
        raise ValueError(
            "a name has letters, digits and underscores, begins with a letter, and has "
            f"at most {MAX_NAME_LENGTH} characters"
        )
    if name == RESET:
        raise ValueError(f"'{RESET}' is a parameter of the tool; use another name")
    return name


StateFields = Annotated[
    dict[Annotated[str, AfterValidator(_check_name)], StateField],
    Field(max_length=MAX_FIELDS),
]
