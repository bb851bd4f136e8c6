"""Addresses for staff: jobs and deployments."""

from django.urls import path
from django.views.generic import RedirectView

from webapp.views import deployments, jobs
from webapp.views.staff import staff_only

urlpatterns = [
    path("", staff_only(RedirectView.as_view(pattern_name="manage-jobs")), name="manage"),
    path("jobs/", jobs.job_list, name="manage-jobs"),
    path("jobs/table/", jobs.job_table, name="manage-jobs-table"),
    path("jobs/<uuid:job_id>/", jobs.job_page, name="manage-job"),
    path("jobs/<uuid:job_id>/status/", jobs.job_status, name="manage-job-status"),
    path("jobs/<uuid:job_id>/stop/", jobs.stop, name="manage-job-stop"),
    path("jobs/<uuid:job_id>/resume/", jobs.resume, name="manage-job-resume"),
    path("deployments/", deployments.deployment_list, name="manage-deployments"),
    path("deployments/deploy/", deployments.deploy, name="manage-deploy"),
    path("deployments/<int:deployment_id>/roll-back/", deployments.roll_back, name="manage-roll-back"),
]
