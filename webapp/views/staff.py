"""Pages for staff alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase


def staff_only(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Send the anonymous to the login page, and refuse (403) whoever is logged in and not staff."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if not request.user.is_staff:
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return guarded


def staff_member(request: HttpRequest) -> User:
    """Who is looking at a page that `staff_only` guards."""
    assert isinstance(request.user, User)
    return request.user
