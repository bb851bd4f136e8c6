"""Guards of pages that need a permission."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect

from webapp.access.roles import Action, may

View = Callable[..., HttpResponseBase]


def allowed(action: Action) -> Callable[[View], View]:
    """Guard a view: anonymous visitors go to the login page, others without permission are refused (403)."""

    def guard(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
            if may(request.user, action):
                return view(request, *args, **kwargs)
            if request.user.is_authenticated:
                raise PermissionDenied
            to_login = redirect_to_login(_way_back(request))
            # htmx would insert the login page into a part of the current page.
            return HttpResponseClientRedirect(to_login.url) if getattr(request, "htmx", False) else to_login

        return guarded

    return guard


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


def _way_back(request: HttpRequest) -> str:
    """Where the login leads: to the page itself; the submission of a form cannot be repeated by a link."""
    if getattr(request, "htmx", False) and request.htmx.current_url_abs_path:  # type: ignore[attr-defined]
        return str(request.htmx.current_url_abs_path)  # type: ignore[attr-defined]
    return request.get_full_path()
