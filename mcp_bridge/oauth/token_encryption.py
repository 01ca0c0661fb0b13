"""Encryption of users' tokens; each is bound to its user, server and column."""

import logging

from core.ids import UserId
from mcp_bridge.oauth.crypto.encryption import DecryptionFailed, TokenCipher
from mcp_bridge.oauth.types import EncryptedTokens, NewTokens, StoredTokens

logger = logging.getLogger(__name__)


def encrypt_tokens(
    new_tokens: NewTokens,
    server: str,
    resource: str,
    user_id: UserId,
    cipher: TokenCipher,
) -> EncryptedTokens:
    """Return tokens encrypted for this user's row only."""
    context = _encryption_context(server, resource, user_id)
    refresh_token = new_tokens.refresh_token
    return EncryptedTokens(
        cipher.key_id,
        cipher.encrypt(new_tokens.access_token, *context, "access_token"),
        None
        if refresh_token is None
        else cipher.encrypt(refresh_token, *context, "refresh_token"),
        new_tokens.scopes,
        new_tokens.expires_at,
    )


def decrypt_access_token(
    stored: StoredTokens, user_id: UserId, cipher: TokenCipher
) -> str | None:
    """Return the access token; None if the encryption key has changed."""
    return _decrypt(
        stored, user_id, cipher, "access_token", stored.encrypted.access_token
    )


def decrypt_refresh_token(
    stored: StoredTokens, user_id: UserId, cipher: TokenCipher
) -> str | None:
    """Return the refresh token; None if missing or not decryptable."""
    ciphertext = stored.encrypted.refresh_token
    return (
        None
        if ciphertext is None
        else _decrypt(stored, user_id, cipher, "refresh_token", ciphertext)
    )


def _decrypt(
    stored: StoredTokens,
    user_id: UserId,
    cipher: TokenCipher,
    name: str,
    ciphertext: bytes,
) -> str | None:
    try:
        return cipher.decrypt(
            ciphertext,
            *_encryption_context(stored.server, stored.resource, user_id),
            name,
        )
    except DecryptionFailed:
        logger.warning(
            "a user's sign-in to mcp server '%s' was encrypted with another key; the "
            "user must connect again",
            stored.server,
        )
        return None


def _encryption_context(server: str, resource: str, user_id: UserId) -> tuple[str, ...]:
    return "mcp_token", server, resource, str(user_id)
