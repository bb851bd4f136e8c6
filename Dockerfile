# One image for web, workers and scheduler. HARDWARE=gpu takes the CUDA builds of torch and FAISS.
#
#   docker build --tag realm-qa:cpu .
#   docker build --tag realm-qa:gpu --build-arg HARDWARE=gpu .

FROM python:3.11-slim-bookworm

ARG HARDWARE=cpu
# Where pip finds torch's CPU build; the index of the other packages stays what it is.
ARG TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu

WORKDIR /app
ENV PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1 PIP_NO_CACHE_DIR=1 REALM_DATA=/data PATH=/app/.venv/bin:$PATH

# Packages first: they change seldom, and this layer is the large one.
COPY pyproject.toml constraints.txt ./
COPY workers/__init__.py workers/bootstrap.py workers/environment.py workers/base_weights.py workers/guards.py workers/refusal.py workers/
RUN if [ "$HARDWARE" = cpu ]; then export PIP_EXTRA_INDEX_URL="$TORCH_CPU_INDEX"; fi; \
    python -m workers.bootstrap --hardware "$HARDWARE" install \
    && { python -m compileall -q .venv/lib || true; }  # a package may bring a file for another Python

COPY . .

RUN useradd --uid 1000 --create-home realm && mkdir /data && chown realm:realm /data
USER realm
VOLUME /data
EXPOSE 8000
ENTRYPOINT ["/app/docker/entrypoint.sh"]
CMD ["web"]
