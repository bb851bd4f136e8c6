"""Guards of pages that need a permission."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from webapp.access.roles import Action, may

View = Callable[..., HttpResponseBase]
UNSENT: Final = "unsent"  # query parameter of the login page: a form was sent and not accepted


def allowed(action: Action) -> Callable[[View], View]:
    """Guard a view: anonymous visitors go to the login page, others without permission are refused (403)."""

    def guard(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            if may(request.user, action):
                return view(request, *args, **kwargs)
            if request.user.is_authenticated:
                raise PermissionDenied
            return to_login(request)

        return guarded

    return guard


def to_login(request: HttpRequest) -> HttpResponseBase:
    """To the login page, which says so if this was a form: nothing of it was done."""
    response = redirect_to_login(way_back(request))
    if request.method == "POST":
        response["Location"] += f"&{UNSENT}=1"
    # htmx would insert the login page into a part of the current page.
    return HttpResponseClientRedirect(response["Location"]) if getattr(request, "htmx", False) else response


def _page(action: Action) -> Callable[[View], View]:
    return lambda view: allowed(action)(never_cache(require_GET(view)))


def _form(action: Action) -> Callable[[View], View]:
    return lambda view: allowed(action)(never_cache(require_http_methods(["GET", "POST"])(view)))


def _action(action: Action) -> Callable[[View], View]:
    return lambda view: allowed(action)(require_POST(view))


# A page that is only read; one with a form, which posts to its own address; what a button posts to.
console_page, console_form, console_action = (kind(Action.OPERATE) for kind in (_page, _form, _action))
curator_page, curator_form, curator_action = (kind(Action.CURATE) for kind in (_page, _form, _action))
account_page, account_form, account_action = (kind(Action.ACCOUNT) for kind in (_page, _form, _action))


def staff_member(request: HttpRequest) -> User:
    """The person of a guarded request."""
    assert isinstance(request.user, User)
    return request.user


def way_back(request: HttpRequest) -> str:
    """Where the login leads: to the page itself, or to that of the form that was sent, which no link can send."""
    if getattr(request, "htmx", False) and request.htmx.current_url_abs_path:  # type: ignore[attr-defined]
        return str(request.htmx.current_url_abs_path)  # type: ignore[attr-defined]
    sent_from = request.headers.get("Referer", "")
    if request.method == "POST" and url_has_allowed_host_and_scheme(sent_from, {request.get_host()}):
        address = urlsplit(sent_from)
        return urlunsplit(("", "", "/" + address.path.lstrip("/"), address.query, ""))
    return request.get_full_path()
