"""Tokens for REST clients: shown once, stored as a hash."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.utils import timezone

PREFIX: Final = "realm_"
SCOPES: Final = ("ask", "feedback", "documents", "metrics", "operate")


class ApiToken(models.Model):
    """One token of one person, limited both by its scopes and by the person's rights."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100, help_text="What it is for.")
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256; the token has 256 bits of its own.")
    start = models.CharField(max_length=16, help_text="Its first characters, to tell tokens apart.")
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.start}… ({self.name})"

    @classmethod
    def issue(
        cls, user: User, name: str, scopes: list[str], *, expires_at: datetime | None = None
    ) -> tuple[ApiToken, str]:
        """(record, token); the token itself is not stored."""
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise ValueError(f"Scopes must be some of {', '.join(SCOPES)}, not {scopes}.")
        token = PREFIX + secrets.token_urlsafe(32)
        record = cls.objects.create(
            user=user, name=name, digest=_digest(token), start=token[:12], scopes=scopes, expires_at=expires_at
        )
        return record, token

    @classmethod
    def of(cls, token: str) -> ApiToken | None:
        """The record of a valid token, with its active user; None otherwise."""
        record = cls.objects.select_related("user").filter(digest=_digest(token), revoked_at=None).first()
        if record is None or not record.user.is_active:
            return None
        return None if record.expires_at is not None and record.expires_at <= timezone.now() else record


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
