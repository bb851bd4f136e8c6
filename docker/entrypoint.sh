#!/bin/sh
# What a container runs: setup, web, worker, scheduler, or any other command as it stands.
set -eu

# A secret that is mounted as a file; libpq reads the variable, so the password is in no URL.
if [ -e /run/secrets/database_password ]; then
    PGPASSWORD="$(cat /run/secrets/database_password)"
    export PGPASSWORD
fi

case "${1:-web}" in
setup)
    python manage.py migrate --no-input
    exec python manage.py setup_data
    ;;
web)
    exec python -m gunicorn webapp.wsgi --config=python:webapp.server --bind=0.0.0.0:8000 \
        --workers="${WEB_PROCESSES:-1}" --worker-tmp-dir=/dev/shm \
        --timeout=120 --graceful-timeout=30 --no-control-socket
    ;;
worker)
    exec python -m celery --quiet --app workers.app worker --loglevel=INFO --pool=threads \
        --without-gossip --without-mingle --without-heartbeat
    ;;
scheduler)
    exec python -m celery --quiet --app workers.app beat --loglevel=INFO --pidfile=
    ;;
*)
    exec "$@"
    ;;
esac
