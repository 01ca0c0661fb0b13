"""What can go wrong when a request says who it is for."""

from core.errors import Invalid


class UserRequired(Invalid):
    """safety_identifier is required: it says whose conversation this is. Send it \
(or the older 'user'), or set 'default_user_id' or 'users: shared' in coulisse.yaml."""

    def __init__(self) -> None:
        super().__init__(param="safety_identifier", code="user_required")


class UserInvalid(Invalid):
    """The user identifier is not valid."""
