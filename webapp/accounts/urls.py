"""Addresses of accounts: login, tokens, password, the audit trail."""

from django.urls import path

from webapp.accounts import audit_api, audit_views, login_views, views

site = [
    path("accounts/login/", login_views.LoginView.as_view(), name="login"),
    path("accounts/logout/", login_views.LogoutView.as_view(), name="logout"),
    path("account/", views.account, name="account"),
    path("account/tokens/", views.make_token, name="account-token-make"),
    path("account/tokens/<int:pk>/revoke/", views.revoke_token, name="account-token-revoke"),
    path("account/password/", views.PasswordView.as_view(), name="account-password"),
]

console = [
    path("audit/", audit_views.audit_trail, name="manage-audit"),
]

rest = [
    path("audit-trail", audit_api.AuditTrailView.as_view(), name="api-audit-trail"),
]
