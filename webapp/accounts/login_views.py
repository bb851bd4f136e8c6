"""The way in: what its form takes, and how often."""

from __future__ import annotations

from django import forms
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm, UsernameField
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView as DjangosLoginView
from django.contrib.auth.views import LogoutView as DjangosLogoutView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.access import limits
from webapp.accounts import service as accounts
from webapp.models import AuditEntry


class LoginForm(AuthenticationForm):
    """As Django's, which checks no length, so that a name that nobody can have went on to the database."""

    username = UsernameField(
        max_length=User._meta.get_field("username").max_length, widget=forms.TextInput(attrs={"autofocus": True})
    )

    def confirm_login_allowed(self, user: User) -> None:
        """Name and password are right; in production an admin whose password anybody guesses stays out all the same."""
        super().confirm_login_allowed(user)
        if settings.IN_PRODUCTION and user.is_staff and accounts.anybody_guesses(user, self.cleaned_data["password"]):
            raise ValidationError(
                f"Anybody guesses this password, so no admin gets in with it. Whoever runs the site gives another: "
                f"manage.py changepassword {user.get_username()}"
            )


class LoginView(DjangosLoginView):
    """As Django's. axes counts the failures of a name from an address; here an address with all names is counted."""

    template_name = "manage/login.html"
    authentication_form = LoginForm

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """An attempt."""
        if not limits.may_log_in(request):
            return render(request, "manage/locked_out.html", status=429)
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Name and password are right. Any superuser will do: they can give the first one another password."""
        response = super().form_valid(form)
        user = form.get_user()
        if user.is_superuser:
            accounts.forget_first_password()
        AuditEntry.record("login", user.get_username(), by=user)
        return response


class LogoutView(DjangosLogoutView):
    """As Django's, written down."""

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """Leave; whoever was not logged in leaves no trace."""
        if isinstance(request.user, User):
            AuditEntry.record("logout", request.user.get_username(), by=request.user)
        return super().post(request, *args, **kwargs)
