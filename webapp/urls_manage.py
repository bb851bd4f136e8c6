"""Addresses of the console, for staff."""

from django.urls import path

from webapp.accounts import audit_views as audit
from webapp.artefacts import removing_views as removing
from webapp.artefacts import views as artefacts
from webapp.deployments import views as deployments
from webapp.evaluations import views as evaluations
from webapp.feedback import review_views as feedback_review
from webapp.jobs import job_views as job
from webapp.jobs import views as jobs
from webapp.models import CorpusSnapshot, IndexGeneration, ModelVersion
from webapp.operations import views as overview
from webapp.questions import views as questions
from webapp.schedules import views as schedules
from webapp.sources import views as sources

urlpatterns = [
    path("", overview.overview_page, name="manage"),
    path("status/", overview.overview_status, name="manage-status"),
    # jobs
    path("jobs/", jobs.job_list, name="manage-jobs"),
    path("jobs/table/", jobs.job_table, name="manage-jobs-table"),
    path("jobs/new/", jobs.kind_list, name="manage-job-kinds"),
    path("jobs/new/<slug:kind>/", jobs.new_job, name="manage-job-new"),
    path("jobs/<uuid:job_id>/", job.job_page, name="manage-job"),
    path("jobs/<uuid:job_id>/status/", job.job_status, name="manage-job-status"),
    path("jobs/<uuid:job_id>/log/", job.job_log, name="manage-job-log"),
    path("jobs/<uuid:job_id>/log.txt", job.whole_log, name="manage-job-whole-log"),
    path("jobs/<uuid:job_id>/plots/", job.job_plots, name="manage-job-plots"),
    path("jobs/<uuid:job_id>/plots/<slug:panel>.svg", job.job_plot, name="manage-job-plot"),
    path("jobs/<uuid:job_id>/stop/", job.stop, name="manage-job-stop"),
    path("jobs/<uuid:job_id>/resume/", job.resume, name="manage-job-resume"),
    path("jobs/<uuid:job_id>/pin/", job.pin, name="manage-job-pin"),
    # what there is
    path("models/", artefacts.model_list, name="manage-models"),
    path("models/<int:pk>/", artefacts.model_page, name="manage-model"),
    path("models/<int:pk>/remove/", removing.remove_artefact, {"kind": ModelVersion}, name="manage-model-remove"),
    path("models/<int:pk>/pin/", artefacts.pin_model, name="manage-model-pin"),
    path("indexes/", artefacts.index_list, name="manage-indexes"),
    path("indexes/<int:pk>/", artefacts.index_page, name="manage-index"),
    path("indexes/<int:pk>/remove/", removing.remove_artefact, {"kind": IndexGeneration}, name="manage-index-remove"),
    path("indexes/<int:pk>/pin/", artefacts.pin_index, name="manage-index-pin"),
    path("corpora/", artefacts.corpus_list, name="manage-corpora"),
    path("corpora/<int:pk>/", artefacts.corpus_page, name="manage-corpus"),
    path("corpora/<int:pk>/remove/", removing.remove_artefact, {"kind": CorpusSnapshot}, name="manage-corpus-remove"),
    path("corpora/files/", sources.source_list, name="manage-sources"),
    path("corpora/files/remove/", sources.remove_source, name="manage-source-remove"),
    path("spans/<int:pk>/", artefacts.spans_page, name="manage-spans"),
    path("questions/", questions.question_list, name="manage-questions"),
    path("questions/from-feedback/", questions.from_feedback, name="manage-questions-from-feedback"),
    path("questions/<int:pk>/", questions.question_set, name="manage-question-set"),
    path("questions/<int:pk>/remove/", removing.remove_questions, name="manage-questions-remove"),
    # what people said of answers
    path("feedback/", feedback_review.feedback_list, name="manage-feedback"),
    path("feedback/export/", feedback_review.export, name="manage-feedback-export"),
    path("feedback/<int:pk>/review/", feedback_review.review, name="manage-feedback-review"),
    # how good it is
    path("evaluations/<int:pk>/", evaluations.evaluation_page, name="manage-evaluation"),
    path("evaluations/<int:pk>/<slug:panel>.svg", evaluations.evaluation_plot, name="manage-evaluation-plot"),
    path("compare/", evaluations.compare, name="manage-compare"),
    path("compare/measure/", evaluations.measure, name="manage-compare-measure"),
    path("compare/<int:first_pk>/<int:second_pk>/", evaluations.comparison, name="manage-comparison"),
    # what answers
    path("deployments/", deployments.deployment_list, name="manage-deployments"),
    path("deployments/now/", deployments.deployed, name="manage-deployed"),
    path("deployments/deploy/", deployments.deploy, name="manage-deploy"),
    path("deployments/measure/", deployments.measure, name="manage-deploy-measure"),
    path("deployments/<int:deployment_id>/roll-back/", deployments.roll_back, name="manage-roll-back"),
    # what happens by itself, and what people did
    path("schedules/", schedules.schedule_list, name="manage-schedules"),
    path("schedules/new/", schedules.edit_schedule, name="manage-schedule-new"),
    path("schedules/<int:pk>/", schedules.edit_schedule, name="manage-schedule"),
    path("schedules/<int:pk>/remove/", schedules.remove_schedule, name="manage-schedule-remove"),
    path("schedules/<int:pk>/run/", schedules.run_schedule, name="manage-schedule-run"),
    path("retention/", schedules.change_retention, name="manage-retention"),
    path("retention/remove/", schedules.remove_now, name="manage-retention-remove"),
    path("audit/", audit.audit_trail, name="manage-audit"),
]
