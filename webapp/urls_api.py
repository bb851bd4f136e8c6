"""Addresses of the REST API, version 1."""

from django.urls import path, re_path

from webapp.artefacts import api as records
from webapp.asking import api as views
from webapp.asking import batch_api as batch
from webapp.asking import kept_api as kept
from webapp.deployments import api as deployments
from webapp.explaining import api as why
from webapp.feedback import api as feedback
from webapp.feedback import review_api as feedback_review
from webapp.jobs import api as jobs
from webapp.rest import problems
from webapp.rest import reference_page as page

urlpatterns = [
    path("ask", views.AskView.as_view(), name="api-ask"),
    path("retrieve", views.RetrieveView.as_view(), name="api-retrieve"),
    path("fill", views.FillView.as_view(), name="api-fill"),
    path("ask/batch", batch.BatchView.as_view(), name="api-batch"),
    path("answers", kept.AnswersView.as_view(), name="api-answers"),
    path("answers/<uuid:answer_id>", kept.AnswerView.as_view(), name="api-answer"),
    path("answers/<uuid:answer_id>/feedback", feedback.FeedbackView.as_view(), name="api-feedback"),
    path("answers/<uuid:answer_id>/why", why.WhyView.as_view(), name="api-why"),
    path("blocks/<str:block_id>", kept.BlockView.as_view(), name="api-block"),
    path("blocks/<str:block_id>/article", kept.ArticleView.as_view(), name="api-article"),
    # for staff
    path("job-kinds", jobs.KindsView.as_view(), name="api-job-kinds"),
    path("jobs", jobs.JobsView.as_view(), name="api-jobs"),
    path("jobs/<uuid:job_id>", jobs.JobView.as_view(), name="api-job"),
    path("jobs/<uuid:job_id>/stop", jobs.StopView.as_view(), name="api-job-stop"),
    path("jobs/<uuid:job_id>/resume", jobs.ResumeView.as_view(), name="api-job-resume"),
    path("jobs/<uuid:job_id>/log", jobs.LogView.as_view(), name="api-job-log"),
    path("jobs/<uuid:job_id>/metrics", jobs.MetricsView.as_view(), name="api-job-metrics"),
    *records.addresses(),
    path("deployments", deployments.DeploymentsView.as_view(), name="api-deployments"),
    path("deployments/<int:deployment_id>", deployments.DeploymentView.as_view(), name="api-deployment"),
    path("deployments/<int:deployment_id>/activate", deployments.ActivateView.as_view(), name="api-activate"),
    path("feedback", feedback_review.AllFeedbackView.as_view(), name="api-all-feedback"),
    path("feedback/export", feedback_review.ExportView.as_view(), name="api-feedback-export"),
    # for everybody again
    path("schema/", views.SchemaView.as_view(), name="api-schema"),
    path("docs/", page.docs, name="api-docs"),
    re_path("", problems.not_found),
]
