"""The audit trail: who did what, when, with which settings. Rows are written once and never changed."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models

_ACTIONS: Final = {
    "account.groups": "groups of an account changed",
    "backup": "backup written",
    "deploy": "index deployed",
    "login": "logged in",
    "logout": "logged out",
    "restore": "backup restored",
    "retention.edit": "rule of what is kept changed",
    "retention.remove": "old work removed",
    "roll-back": "went back to an earlier deployment",
    "segments.remove": "old edits removed",
}
_VERBS: Final = {
    "accept": "accepted",
    "add": "added",
    "change": "changed",
    "create": "created",
    "edit": "changed",
    "fetch": "fetched",
    "fold": "folded",
    "forget": "forgotten",
    "pin": "pinned",
    "purge": "purged",
    "refuse": "refused",
    "remove": "removed",
    "reopen": "reopened",
    "resume": "resumed",
    "revoke": "revoked",
    "run": "run",
    "start": "started",
    "stop": "stopped",
    "unpin": "unpinned",
}


def action_in_words(action: str) -> str:
    """An action as a page says it: “job started” for “job.start”."""
    subject, _, verb = action.partition(".")
    return _ACTIONS.get(action) or f"{subject.replace('-', ' ')} {_VERBS.get(verb, verb)}".strip()


class AuditEntry(models.Model):
    """One action of a person or a schedule."""

    at = models.DateTimeField(auto_now_add=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    name = models.CharField(max_length=150, help_text="The person's name then, or what acted by itself.")
    action = models.CharField(max_length=40, help_text="Such as job.start, job.stop, deploy, roll-back, schedule.edit.")
    target = models.CharField(max_length=300, help_text="What it was done to, in words.")
    details = models.JSONField(default=dict, help_text="Settings, and what a person confirmed.")
    job = models.ForeignKey("webapp.Job", on_delete=models.SET_NULL, null=True, blank=True, related_name="audit")

    class Meta:
        ordering = ["-at", "-pk"]
        indexes = [models.Index(fields=["-at"], name="audit_at")]
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.name}: {self.action} {self.target}"

    @property
    def what(self) -> str:
        """The action in words."""
        return action_in_words(self.action)

    @classmethod
    def record(
        cls, action: str, target: object, *, by: User | str | None, job: Any = None, **details: Any
    ) -> AuditEntry:
        """Add an entry. by: a person, the name of an automatic actor, or None for the command line."""
        person = by if isinstance(by, User) else None
        name = by.get_username() if isinstance(by, User) else by or "command line"
        return cls.objects.create(
            by=person, name=name, action=action, target=str(target)[:300], details=details, job=job
        )
