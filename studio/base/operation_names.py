"""Operation ids for generated clients."""

from typing import Any

from drf_spectacular.openapi import AutoSchema

ROOT_PATH = "/admin/"


class StudioAutoSchema(AutoSchema):
    """Derives an operation id from the address, unless the view sets one."""

    VERBS = {"DELETE": "delete", "PATCH": "change", "POST": "create"}

    def get_operation_id(self) -> str:
        """Return an id such as `tasks_list`, `tasks_cancel` or `tokens_create`."""
        steps = (self.path.removeprefix(ROOT_PATH) or "home").split("/")
        words = [step.replace("-", "_") for step in steps if not step.startswith("{")]
        if self.method == "POST" and len(steps) > 1 and steps[-2].startswith("{"):
            # An action on one object, such as `cancel`.
            return "_".join(words)
        return "_".join([*words, self._verb(is_one=steps[-1].startswith("{"))])

    def _verb(self, *, is_one: bool) -> str:
        if self.method in self.VERBS:
            return self.VERBS[self.method]
        if self.method == "PUT":
            return "update" if is_one else "write"
        if is_one:
            return "retrieve"
        return "list" if _is_list_schema(self.get_response_serializers()) else "show"


def _is_list_schema(schema: Any) -> bool:
    """Return whether a schema is that of a list, paged or complete."""
    field = getattr(schema, "model_fields", {}).get("object")
    return field is not None and field.default == "list"
