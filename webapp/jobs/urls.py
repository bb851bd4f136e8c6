"""Addresses of jobs."""

from django.urls import path

from webapp.jobs import api, job_views, views

console = [
    path("jobs/", views.job_list, name="manage-jobs"),
    path("jobs/table/", views.job_table, name="manage-jobs-table"),
    path("jobs/new/", views.kind_list, name="manage-job-kinds"),
    path("jobs/new/<slug:kind>/", views.new_job, name="manage-job-new"),
    path("jobs/<uuid:job_id>/", job_views.job_page, name="manage-job"),
    path("jobs/<uuid:job_id>/status/", job_views.job_status, name="manage-job-status"),
    path("jobs/<uuid:job_id>/log/", job_views.job_log, name="manage-job-log"),
    path("jobs/<uuid:job_id>/log.txt", job_views.whole_log, name="manage-job-whole-log"),
    path("jobs/<uuid:job_id>/plots/", job_views.job_plots, name="manage-job-plots"),
    path("jobs/<uuid:job_id>/plots/<slug:panel>.svg", job_views.job_plot, name="manage-job-plot"),
    path("jobs/<uuid:job_id>/stop/", job_views.stop, name="manage-job-stop"),
    path("jobs/<uuid:job_id>/resume/", job_views.resume, name="manage-job-resume"),
    path("jobs/<uuid:job_id>/pin/", job_views.pin, name="manage-job-pin"),
]

rest = [
    path("job-kinds", api.KindsView.as_view(), name="api-job-kinds"),
    path("jobs", api.JobsView.as_view(), name="api-jobs"),
    path("jobs/<uuid:job_id>", api.JobView.as_view(), name="api-job"),
    path("jobs/<uuid:job_id>/stop", api.StopView.as_view(), name="api-job-stop"),
    path("jobs/<uuid:job_id>/resume", api.ResumeView.as_view(), name="api-job-resume"),
    path("jobs/<uuid:job_id>/log", api.LogView.as_view(), name="api-job-log"),
    path("jobs/<uuid:job_id>/metrics", api.MetricsView.as_view(), name="api-job-metrics"),
]
