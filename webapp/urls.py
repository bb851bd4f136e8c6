"""Every address of the site."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from webapp.accounts.login_views import LoginView, LogoutView
from webapp.mcp.views import McpView
from webapp.operations import health

handler400 = "webapp.pages.errors.bad_request"
handler500 = "webapp.pages.errors.server_error"

urlpatterns = [
    # For browsers that look here unasked, as on pages that are not ours (the administration).
    path("favicon.ico", RedirectView.as_view(url=static("img/favicon.svg"))),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path(
        "accounts/login/",
        LoginView.as_view(),
        name="login",
    ),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    path("admin/login/", RedirectView.as_view(pattern_name="login", query_string=True)),  # there is one way in
    path("admin/", admin.site.urls),
    path("manage/", include("webapp.urls_manage")),
    path("api/v1/", include("webapp.urls_api")),
    path("mcp", McpView.as_view(), name="mcp"),
    path("", include("webapp.urls_pages")),
]
