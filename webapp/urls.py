"""All addresses of the site, from those of the subjects."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from webapp.accounts import urls as accounts
from webapp.artefacts import urls as artefacts
from webapp.articles import urls as articles
from webapp.asking import urls as asking
from webapp.collections import urls as collections
from webapp.deployments import urls as deployments
from webapp.documents import urls as documents
from webapp.evaluations import urls as evaluations
from webapp.explaining import urls as explaining
from webapp.feedback import urls as feedback
from webapp.filling import urls as filling
from webapp.jobs import urls as jobs
from webapp.ledger import urls as ledger
from webapp.mcp import urls as mcp
from webapp.operations import urls as operations
from webapp.originals import urls as originals
from webapp.pages.about import how_it_works
from webapp.purges import urls as purges
from webapp.questions import urls as questions
from webapp.rest.problems import not_found
from webapp.rest.reference import SchemaView, docs
from webapp.schedules import urls as schedules
from webapp.sources import urls as sources

handler400 = "webapp.pages.errors.bad_request"
handler404 = "webapp.pages.errors.page_not_found"
handler500 = "webapp.pages.errors.server_error"

CONSOLE = [  # for staff
    *operations.console,
    *jobs.console,
    *artefacts.console,
    *sources.console,
    *documents.console,
    *ledger.console,
    *purges.console,
    *collections.console,
    *questions.console,
    *feedback.console,
    *evaluations.console,
    *deployments.console,
    *schedules.console,
    *accounts.console,
]
REST = [
    *asking.rest,
    *filling.rest,
    *articles.rest,
    *documents.rest,
    *ledger.rest,
    *purges.rest,
    *originals.rest,
    *collections.rest,
    *feedback.rest,
    *questions.rest,
    *explaining.rest,
    *jobs.rest,
    *sources.rest,
    *artefacts.rest,
    *evaluations.rest,
    *deployments.rest,
    *schedules.rest,
    *accounts.rest,
    path("schema/", SchemaView.as_view(), name="api-schema"),
    path("docs/", docs, name="api-docs"),
    re_path("", not_found),  # last: all other addresses below /api/
]
urlpatterns = [
    # Requested by browsers by default, as on pages that are not ours (the administration).
    path("favicon.ico", RedirectView.as_view(url=static("img/favicon.svg"))),
    path("admin/login/", RedirectView.as_view(pattern_name="login", query_string=True)),  # there is one login page
    path("admin/", admin.site.urls),
    path("manage/", include(CONSOLE)),
    path("api/v1/", include(REST)),
    *operations.site,
    *accounts.site,
    *mcp.site,
    *asking.site,
    *articles.site,
    *originals.site,
    *feedback.site,
    *explaining.site,
    *filling.site,
    path("how-it-works/", how_it_works, name="how-it-works"),
]
