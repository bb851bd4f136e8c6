"""Login and logout."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm, UsernameField
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView as DjangosLoginView
from django.contrib.auth.views import LogoutView as DjangosLogoutView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render

from webapp.access import limits
from webapp.accounts import service as accounts
from webapp.accounts.by_proxy import began_at_proxy
from webapp.pages.guards import UNSENT


class LoginForm(AuthenticationForm):
    """Django's form with a maximum length, so that a name that is too long does not reach the database."""

    username = UsernameField(
        max_length=User._meta.get_field("username").max_length, widget=forms.TextInput(attrs={"autofocus": True})
    )

    def confirm_login_allowed(self, user: User) -> None:
        """Name and password are right; in production an admin with a common password is refused nevertheless."""
        super().confirm_login_allowed(user)
        if settings.IN_PRODUCTION and user.is_staff and accounts.is_too_common(user, self.cleaned_data["password"]):
            raise ValidationError(
                f"This password is too easy to guess, so no admin can log in with it. Set another one on the server: "
                f"manage.py changepassword {user.get_username()}"
            )


class LoginView(DjangosLoginView):
    """Django's view. axes counts failures per name and address; this view also counts those per address."""

    template_name = "manage/login.html"
    authentication_form = LoginForm

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        """A person whom the proxy has logged in goes on: the next request would undo another login."""
        if began_at_proxy(request):
            return redirect(self.get_success_url())
        return super().dispatch(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """With whether people log in at the proxy, and whether this one has sent a form without a session."""
        more = {"at_proxy": bool(settings.LOGIN_HEADER), "unsent": UNSENT in self.request.GET}
        return super().get_context_data(**kwargs) | more

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if not limits.may_log_in(request):
            return render(request, "manage/locked_out.html", status=429)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Name and password are right. After the login of any superuser the first password is not needed any more."""
        response = super().form_valid(form)
        limits.logged_in(self.request)
        if form.get_user().is_superuser:
            accounts.forget_first_password()
        return response


class LogoutView(DjangosLogoutView):
    """Django's view, and what it cannot do for a person whom the proxy logs in."""

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        at_proxy = began_at_proxy(request)
        response = super().post(request, *args, **kwargs)
        return render(request, "manage/logged_out.html") if at_proxy else response
