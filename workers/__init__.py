"""What runs beside the web server: the bootstrap, the supervisor, and the Celery workers that run jobs.

Nothing is imported here, so that `workers.bootstrap` works before anything is installed.
"""
