"""The switch that requires API tokens: an edit of several sections."""

from typing import Literal

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from pydantic import BaseModel
from rest_framework.request import Request

from access.tokens import token_setup
from config.editing import config_file, file_editor
from studio.configuration.file_views import UNCHANGED_MESSAGE, FileView

TOKENS_URL = "/admin/tokens"


class TokensEnabledState(BaseModel):
    """Whether tokens are required."""

    is_on: Literal[True] = True


class EnableTokensView(FileView):
    """`/admin/tokens/enable`: require tokens, which changes several sections."""

    title = "Tokens"
    breadcrumbs = [("Tokens", TOKENS_URL)]
    http_method_names = ["post", "options"]

    @extend_schema(
        operation_id="tokens_enable",
        summary="Require tokens for `/v1`",
        description="Sets `auth.proxy.tokens`, and removes `users` and "
        "`default_user_id`, because each token has its user.",
        request=None,
        responses=TokensEnabledState,
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Store the settings, unless they are in force already."""
        file = config_file.read_file()
        change = file_editor.put_data(
            (), token_setup.enable_tokens(file), token_setup.removed_comments()
        )
        self.run_recorded(change, ("auth",))
        done = "Saved; clients now need a token"
        return self.confirm_change(
            {"is_on": True},
            message=done if self.is_changed else UNCHANGED_MESSAGE,
            redirect_to=TOKENS_URL,
        )
