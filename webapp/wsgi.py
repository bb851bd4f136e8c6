"""Entry point for WSGI servers: `gunicorn webapp.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
application = get_wsgi_application()

from webapp.bodies import Utf8Request  # noqa: E402  # needs Django's settings
from webapp.serving.engine import watch  # noqa: E402
from webapp.serving.presence import presence  # noqa: E402

application.request_class = Utf8Request
watch(presence.report)
