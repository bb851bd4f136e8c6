"""All addresses of the site, each subject's in a row."""

from django.contrib import admin
from django.templatetags.static import static
from django.urls import include, path, re_path, register_converter
from django.urls.converters import StringConverter
from django.views.generic import RedirectView

from webapp.access.roles import Action
from webapp.accounts import audit_api, audit_views, login_views
from webapp.accounts import views as accounts_views
from webapp.artefacts import api as artefacts_api
from webapp.artefacts import views as artefacts_views
from webapp.artefacts.removing_views import remove_artefact, remove_questions
from webapp.articles import api as articles_api
from webapp.articles import views as articles_views
from webapp.asking import urls as asking
from webapp.bodies import allow_larger_body
from webapp.collections import api as collections_api
from webapp.collections import views as collections_views
from webapp.deployments import api as deployments_api
from webapp.deployments import views as deployments_views
from webapp.documents import api as documents_api
from webapp.documents import edit_views
from webapp.documents import views as documents_views
from webapp.documents.inputs import LARGEST_FILE_BYTES
from webapp.evaluations import api as evaluations_api
from webapp.evaluations import views as evaluations_views
from webapp.explaining import api as explaining_api
from webapp.explaining import views as explaining_views
from webapp.feedback import api as feedback_api
from webapp.feedback import review_api, review_views
from webapp.feedback import views as feedback_views
from webapp.filling import api as filling_api
from webapp.filling import views as filling_views
from webapp.jobs import api as jobs_api
from webapp.jobs import job_views
from webapp.jobs import views as jobs_views
from webapp.ledger import api as ledger_api
from webapp.ledger import views as ledger_views
from webapp.mcp.views import McpView
from webapp.models import CorpusSnapshot, IndexGeneration, ModelVersion
from webapp.operations import health
from webapp.operations import views as operations_views
from webapp.originals import api as originals_api
from webapp.originals import views as originals_views
from webapp.pages.about import how_it_works
from webapp.purges import api as purges_api
from webapp.purges import views as purges_views
from webapp.questions import api as questions_api
from webapp.questions import views as questions_views
from webapp.rest.problems import not_found
from webapp.rest.reference import SchemaView, docs
from webapp.schedules import api as schedules_api
from webapp.schedules import views as schedules_views
from webapp.sources import api as sources_api
from webapp.sources import views as sources_views
from webapp.sources.service import LARGEST_UPLOAD_BYTES


class AnyTextConverter(StringConverter):
    """Text of any characters. Django's `path` matches no line break, so an address with one would find no view."""

    regex = "(?s:.+)"


register_converter(AnyTextConverter, "any_text")

_document_uploads = allow_larger_body(LARGEST_FILE_BYTES, Action.EDIT)
_source_uploads = allow_larger_body(LARGEST_UPLOAD_BYTES, Action.OPERATE)

handler400 = "webapp.pages.errors.bad_request"
handler404 = "webapp.pages.errors.page_not_found"
handler500 = "webapp.pages.errors.server_error"

CONSOLE = [  # for staff
    path("", operations_views.overview_page, name="manage"),
    path("status/", operations_views.overview_status, name="manage-status"),
    path("jobs/", jobs_views.job_list, name="manage-jobs"),
    path("jobs/table/", jobs_views.job_table, name="manage-jobs-table"),
    path("jobs/new/", jobs_views.kind_list, name="manage-job-kinds"),
    path("jobs/new/<slug:kind>/", jobs_views.new_job, name="manage-job-new"),
    path("jobs/<uuid:job_id>/", job_views.job_page, name="manage-job"),
    path("jobs/<uuid:job_id>/status/", job_views.job_status, name="manage-job-status"),
    path("jobs/<uuid:job_id>/log/", job_views.job_log, name="manage-job-log"),
    path("jobs/<uuid:job_id>/log.txt", job_views.whole_log, name="manage-job-whole-log"),
    path("jobs/<uuid:job_id>/plots/", job_views.job_plots, name="manage-job-plots"),
    path("jobs/<uuid:job_id>/plots/<slug:panel>.svg", job_views.job_plot, name="manage-job-plot"),
    path("jobs/<uuid:job_id>/stop/", job_views.stop, name="manage-job-stop"),
    path("jobs/<uuid:job_id>/resume/", job_views.resume, name="manage-job-resume"),
    path("jobs/<uuid:job_id>/pin/", job_views.pin, name="manage-job-pin"),
    path("models/", artefacts_views.model_list, name="manage-models"),
    path("models/add/", artefacts_views.add_shipped, name="manage-model-add"),
    path("models/<int:pk>/", artefacts_views.model_page, name="manage-model"),
    path("models/<int:pk>/remove/", remove_artefact, {"kind": ModelVersion}, name="manage-model-remove"),
    path("models/<int:pk>/pin/", artefacts_views.pin, {"kind": ModelVersion}, name="manage-model-pin"),
    path("indexes/", artefacts_views.index_list, name="manage-indexes"),
    path("indexes/<int:pk>/", artefacts_views.index_page, name="manage-index"),
    path("indexes/<int:pk>/remove/", remove_artefact, {"kind": IndexGeneration}, name="manage-index-remove"),
    path("indexes/<int:pk>/pin/", artefacts_views.pin, {"kind": IndexGeneration}, name="manage-index-pin"),
    path("corpora/", artefacts_views.corpus_list, name="manage-corpora"),
    path("corpora/<int:pk>/", artefacts_views.corpus_page, name="manage-corpus"),
    path("corpora/<int:pk>/remove/", remove_artefact, {"kind": CorpusSnapshot}, name="manage-corpus-remove"),
    path("questions/<int:pk>/remove/", remove_questions, name="manage-questions-remove"),
    path("spans/<int:pk>/", artefacts_views.spans_page, name="manage-spans"),
    path("corpora/files/", sources_views.source_list, name="manage-sources"),
    path("corpora/files/remove/", sources_views.remove_source, name="manage-source-remove"),
    path("documents/", documents_views.document_list, name="manage-documents"),
    path("documents/add/", edit_views.add_document, name="manage-document-add"),
    path("documents/bring/", documents_views.bring_documents, name="manage-documents-bring"),
    path("documents/fold/", documents_views.fold_documents, name="manage-documents-fold"),
    path("documents/document/", documents_views.document_page, name="manage-document"),
    path("documents/document/change/", edit_views.change_document, name="manage-document-change"),
    path("documents/document/remove/", edit_views.remove_document, name="manage-document-remove"),
    path("documents/changes/", ledger_views.change_list, name="manage-document-changes"),
    path("documents/changes/<int:pk>/", ledger_views.change_page, name="manage-document-change-page"),
    path("documents/changes/<int:pk>/again/", ledger_views.ask_again, name="manage-document-change-again"),
    path("documents/document/purge/", purges_views.purge_document, name="manage-document-purge"),
    path("documents/purges/<uuid:pk>/", purges_views.purge_page, name="manage-purge"),
    path("documents/collections/", collections_views.collection_list, name="manage-collections"),
    path("documents/collections/collection/", collections_views.edit_collection, name="manage-collection"),
    path(
        "documents/collections/collection/remove/", collections_views.remove_collection, name="manage-collection-remove"
    ),
    path("questions/", questions_views.question_list, name="manage-questions"),
    path("questions/from-feedback/", questions_views.from_feedback, name="manage-questions-from-feedback"),
    path("questions/<int:pk>/", questions_views.question_set, name="manage-question-set"),
    path("feedback/export/", questions_views.export_feedback, name="manage-feedback-export"),
    path("feedback/", review_views.feedback_list, name="manage-feedback"),
    path("feedback/<int:pk>/review/", review_views.review, name="manage-feedback-review"),
    path("evaluations/<int:pk>/", evaluations_views.evaluation_page, name="manage-evaluation"),
    path("evaluations/<int:pk>/<slug:panel>.svg", evaluations_views.evaluation_plot, name="manage-evaluation-plot"),
    path("compare/", evaluations_views.compare, name="manage-compare"),
    path("compare/measure/", evaluations_views.measure, name="manage-compare-measure"),
    path("compare/<int:first_pk>/<int:second_pk>/", evaluations_views.comparison, name="manage-comparison"),
    path("deployments/", deployments_views.deployment_list, name="manage-deployments"),
    path("deployments/now/", deployments_views.deployed, name="manage-deployed"),
    path("deployments/deploy/", deployments_views.deploy, name="manage-deploy"),
    path("deployments/measure/", deployments_views.measure, name="manage-deploy-measure"),
    path("deployments/<int:deployment_id>/roll-back/", deployments_views.roll_back, name="manage-roll-back"),
    path("schedules/", schedules_views.schedule_list, name="manage-schedules"),
    path("schedules/new/", schedules_views.edit_schedule, name="manage-schedule-new"),
    path("schedules/<int:pk>/", schedules_views.edit_schedule, name="manage-schedule"),
    path("schedules/<int:pk>/remove/", schedules_views.remove_schedule, name="manage-schedule-remove"),
    path("schedules/<int:pk>/run/", schedules_views.run_schedule, name="manage-schedule-run"),
    path("retention/", schedules_views.change_retention, name="manage-retention"),
    path("retention/remove/", schedules_views.remove_now, name="manage-retention-remove"),
    path("audit/", audit_views.audit_trail, name="manage-audit"),
]
REST = [
    *asking.rest,
    path("fill", filling_api.FillView.as_view(), name="api-fill"),
    path("blocks/<str:block_id>", articles_api.BlockByIdView.as_view(), name="api-block"),
    path("blocks/<str:block_id>/article", articles_api.ArticleView.as_view(), name="api-article"),
    path("documents", _document_uploads(documents_api.DocumentsView.as_view()), name="api-documents"),
    path("documents/bulk", _document_uploads(documents_api.BulkView.as_view()), name="api-documents-bulk"),
    # Before the document itself, whose id may have any characters.
    path(
        "documents/<any_text:document_id>/touched",
        _document_uploads(documents_api.TouchedView.as_view()),
        name="api-document-touched",
    ),
    path(
        "documents/<any_text:document_id>", _document_uploads(documents_api.DocumentView.as_view()), name="api-document"
    ),
    path("document-changes", ledger_api.DocumentChangesView.as_view(), name="api-document-changes"),
    path("document-changes/<int:change_id>/answers", ledger_api.ChangeAnswersView.as_view(), name="api-change-answers"),
    path("purges", purges_api.PurgesView.as_view(), name="api-purges"),
    path("purges/<uuid:purge_id>", purges_api.PurgeView.as_view(), name="api-purge"),
    path("originals/<any_text:document_id>", originals_api.OriginalView.as_view(), name="api-original"),
    path("collections", collections_api.CollectionsView.as_view(), name="api-collections"),
    path("collections/<any_text:name>", collections_api.CollectionView.as_view(), name="api-collection"),
    path("answers/<uuid:answer_id>/feedback", feedback_api.FeedbackView.as_view(), name="api-feedback"),
    path("feedback", review_api.AllFeedbackView.as_view(), name="api-all-feedback"),
    path("feedback/export", questions_api.ExportView.as_view(), name="api-feedback-export"),
    path("answers/<uuid:answer_id>/why", explaining_api.WhyView.as_view(), name="api-why"),
    path("job-kinds", jobs_api.KindsView.as_view(), name="api-job-kinds"),
    path("jobs", jobs_api.JobsView.as_view(), name="api-jobs"),
    path("jobs/<uuid:job_id>", jobs_api.JobView.as_view(), name="api-job"),
    path("jobs/<uuid:job_id>/stop", jobs_api.StopView.as_view(), name="api-job-stop"),
    path("jobs/<uuid:job_id>/resume", jobs_api.ResumeView.as_view(), name="api-job-resume"),
    path("jobs/<uuid:job_id>/log", jobs_api.LogView.as_view(), name="api-job-log"),
    path("jobs/<uuid:job_id>/metrics", jobs_api.MetricsView.as_view(), name="api-job-metrics"),
    path("source-files", _source_uploads(sources_api.SourceFilesView.as_view()), name="api-source-files"),
    path("source-files/<str:name>", sources_api.SourceFileView.as_view(), name="api-source-file"),
    *artefacts_api.addresses(),
    path("evaluations/<int:record_id>/predictions", evaluations_api.PredictionsView.as_view(), name="api-predictions"),
    path("deployments", deployments_api.DeploymentsView.as_view(), name="api-deployments"),
    path("deployments/<int:deployment_id>", deployments_api.DeploymentView.as_view(), name="api-deployment"),
    path("deployments/<int:deployment_id>/activate", deployments_api.ActivateView.as_view(), name="api-activate"),
    path("schedules", schedules_api.SchedulesView.as_view(), name="api-schedules"),
    path("schedules/<int:schedule_id>", schedules_api.ScheduleView.as_view(), name="api-schedule"),
    path("schedules/<int:schedule_id>/run", schedules_api.RunView.as_view(), name="api-schedule-run"),
    path("retention", schedules_api.RetentionView.as_view(), name="api-retention"),
    path("audit-trail", audit_api.AuditTrailView.as_view(), name="api-audit-trail"),
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
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("accounts/login/", login_views.LoginView.as_view(), name="login"),
    path("accounts/logout/", login_views.LogoutView.as_view(), name="logout"),
    path("account/", accounts_views.account, name="account"),
    path("account/tokens/", accounts_views.make_token, name="account-token-make"),
    path("account/tokens/<int:pk>/revoke/", accounts_views.revoke_token, name="account-token-revoke"),
    path("account/password/", accounts_views.PasswordView.as_view(), name="account-password"),
    path("mcp", McpView.as_view(), name="mcp"),
    *asking.site,
    path("blocks/<str:block_id>/", articles_views.block, name="block"),
    path("documents/original/", originals_views.original, name="document-original"),
    path("answers/<uuid:answer_id>/feedback/", feedback_views.give, name="feedback"),
    path("answers/<uuid:answer_id>/feedback/take-back/", feedback_views.withdraw, name="feedback-take-back"),
    path("answers/<uuid:answer_id>/why/", explaining_views.explain, name="answer-why"),
    path("fill/", filling_views.fill, name="fill"),
    path("how-it-works/", how_it_works, name="how-it-works"),
]
