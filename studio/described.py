"""Names what faces do, for clients that are made of the description."""

from drf_spectacular.openapi import AutoSchema

ROOT = "/admin/"


class Described(AutoSchema):
    """Names what a face does by its address, where the face does not."""

    VERBS = {
        "DELETE": "delete",
        "GET": "show",
        "PATCH": "change",
        "POST": "do",
        "PUT": "write",
    }

    def get_operation_id(self) -> str:
        """Return `tasks_one_cancel_do`."""
        steps = (self.path.removeprefix(ROOT) or "home").split("/")
        named = ["one" if step.startswith("{") else step for step in steps]
        return "_".join([*named, self.VERBS[self.method]])
