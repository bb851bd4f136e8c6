"""Addresses of schedules and of retention, which one page shows."""

from django.urls import path

from webapp.schedules import api, views

console = [
    path("schedules/", views.schedule_list, name="manage-schedules"),
    path("schedules/new/", views.edit_schedule, name="manage-schedule-new"),
    path("schedules/<int:pk>/", views.edit_schedule, name="manage-schedule"),
    path("schedules/<int:pk>/remove/", views.remove_schedule, name="manage-schedule-remove"),
    path("schedules/<int:pk>/run/", views.run_schedule, name="manage-schedule-run"),
    path("retention/", views.change_retention, name="manage-retention"),
    path("retention/remove/", views.remove_now, name="manage-retention-remove"),
]

rest = [
    path("schedules", api.SchedulesView.as_view(), name="api-schedules"),
    path("schedules/<int:schedule_id>", api.ScheduleView.as_view(), name="api-schedule"),
    path("schedules/<int:schedule_id>/run", api.RunView.as_view(), name="api-schedule-run"),
    path("retention", api.RetentionView.as_view(), name="api-retention"),
]
