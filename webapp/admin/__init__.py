"""Django's administration: everything is visible, only what is meant to be changed can be changed."""

from django.contrib import admin
from django.urls import reverse_lazy

from webapp.admin import audited, records

__all__ = ["audited", "records"]

# Named as the link of the console that leads here; “View site” leads back to the console.
admin.site.site_header = admin.site.index_title = "Records"
admin.site.site_title = "REALM"
admin.site.site_url = reverse_lazy("manage")  # type: ignore[assignment]
