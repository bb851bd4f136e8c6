"""Browsers of people who are logged in."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client

from webapp.access.roles import Role, role_of


def logged_in(user: User) -> Client:
    """A browser with a session as a login leaves it.

    What a login does beside (audit trail, list of logins) takes longer than most requests, and tests see what they
    cause themselves.
    """
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    if role_of(user) >= Role.CURATOR:
        session.set_expiry(settings.SHORT_SESSION_SECONDS)
    session.create()
    browser = Client()
    browser.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    return browser
