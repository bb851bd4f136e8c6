"""The account page: the role, tokens for programs, the password."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.auth import views as auth
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse_lazy
from django.utils.decorators import method_decorator

from realm_core.errors import RealmError
from webapp.access.roles import Action, Role, grantable_scopes, role_of
from webapp.accounts import service as accounts
from webapp.models import ApiToken, AuditEntry
from webapp.pages.guards import account_action, account_form, account_page, allowed, staff_member

_ABOUT_SCOPES: Final = {
    "ask": "ask: questions, retrieval, kept answers",
    "feedback": "feedback: say whether answers are right",
    "documents": "documents: add, change and remove documents",
    "metrics": "metrics: figures of the server, for monitoring",
    "operate": "operate: jobs, models, deployments, everything that you may do in the console",
}
_VALID_FOR: Final = (("30", "30 days"), ("90", "90 days"), ("365", "a year"), ("", "until it is revoked"))
ROLES: Final = {
    Role.ASKER: "You may ask, and say what you think of answers.",
    Role.CURATOR: "You are a curator: you may also review feedback, look after question sets, and compare models.",
    Role.ADMIN: "You are an admin: you may do everything here.",
}


class TokenForm(forms.Form):
    name = forms.CharField(
        required=False,
        max_length=accounts.LONGEST_NAME,
        label="What it is for",
        help_text="Such as the name of the program. Empty: what it may do.",
    )
    scopes = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple, label="What it may do", error_messages={"required": "Choose at least one."}
    )
    days = forms.ChoiceField(choices=_VALID_FOR, required=False, label="Valid for", initial="90")

    def __init__(self, user: User, *args: Any) -> None:
        super().__init__(*args)
        scopes: forms.MultipleChoiceField = self.fields["scopes"]  # type: ignore[assignment]
        scopes.choices = [(scope, _ABOUT_SCOPES[scope]) for scope in grantable_scopes(user)]


@account_page
def account(request: HttpRequest) -> HttpResponse:
    return _page(request, TokenForm(staff_member(request)))


@account_form
def make_token(request: HttpRequest) -> HttpResponse:
    """Make a token and show it once: it is only in this response, not even in the session."""
    if request.method != "POST":
        return redirect("account")
    user = staff_member(request)
    form = TokenForm(user, request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    days = int(form.cleaned_data["days"]) if form.cleaned_data["days"] else None
    try:
        made, token = accounts.make_token(
            user, form.cleaned_data["name"], form.cleaned_data["scopes"], days=days, by=user
        )
    except RealmError as refused:
        form.add_error(None, str(refused))
        return _page(request, form, status=422)
    response = render(request, "account/token.html", {"made": made, "token": token})
    response["Cache-Control"] = "no-store"
    return response


@account_action
def revoke_token(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke a token of this account."""
    user = staff_member(request)
    token = get_object_or_404(ApiToken, pk=pk, user=user)
    if accounts.revoke(token, by=user):
        messages.success(request, f"{token.name} is revoked: requests with it are refused from now on.")
    return redirect("account")


@method_decorator(allowed(Action.ACCOUNT), name="dispatch")
class PasswordView(auth.PasswordChangeView):
    """Change the password. All other sessions end; tokens stay valid."""

    template_name = "account/password.html"
    success_url = reverse_lazy("account")

    def form_valid(self, form: PasswordChangeForm) -> HttpResponse:
        response = super().form_valid(form)
        user = staff_member(self.request)
        AuditEntry.record("password.change", user.get_username(), by=user)
        messages.success(self.request, "Your password is changed. Elsewhere you are logged out.")
        return response


def _page(request: HttpRequest, form: TokenForm, status: int = 200) -> HttpResponse:
    user = staff_member(request)
    context = {"form": form, "tokens": accounts.valid_tokens(user), "about_role": ROLES[role_of(user)]}
    return render(request, "account/account.html", context, status=status)
