# State (.coulisse/) and coulisse.yaml live in /data: mount a directory that user
# 1000 may write to. `--init` ends what a killed process leaves behind.
#   docker build -t coulisse .
#   docker run --init -v "$PWD/data:/data" -p 8421:8421 -e OPENAI_API_KEY coulisse
FROM python:3.11-slim

# Not every directory that can be mounted at /data takes a socket.
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    COULISSE_CONFIG=/data/coulisse.yaml \
    COULISSE_BROKER_SOCKET=/tmp/coulisse/broker.sock
WORKDIR /app

COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt

COPY . .
RUN ln -s /app/manage.py /usr/local/bin/coulisse
RUN useradd --uid 1000 --create-home coulisse && mkdir /data && chown coulisse /data
USER coulisse
VOLUME /data
EXPOSE 8421

HEALTHCHECK --interval=30s --timeout=10s --start-period=20s CMD \
    python manage.py status --ready
CMD ["python", "manage.py", "start", "--foreground"]
