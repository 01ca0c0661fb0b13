# coulisse.yaml and the state, .coulisse/, are mounted into /app. `--init` ends what a
# killed process leaves behind.
#   docker build -t coulisse .
#   docker run --init -v "$PWD/.coulisse:/app/.coulisse" \
#     -v "$PWD/coulisse.yaml:/app/coulisse.yaml:ro" -p 8421:8421 -e OPENAI_API_KEY coulisse
FROM python:3.11-slim

# Not every directory that can be mounted takes a socket.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    HOME=/home/coulisse \
    COULISSE_BROKER_SOCKET=/tmp/coulisse/broker.sock
WORKDIR /app

COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt

COPY . .
# The command runs as the owner of the state, who needs a home, too.
RUN ln -s /app/deploy/coulisse /usr/local/bin/coulisse \
    && mkdir -m 1777 /home/coulisse && mkdir .coulisse && chown 1000:1000 .coulisse
VOLUME /app/.coulisse
EXPOSE 8421

HEALTHCHECK --interval=30s --timeout=10s --start-period=20s CMD coulisse status --ready
CMD ["coulisse", "start", "--foreground"]
