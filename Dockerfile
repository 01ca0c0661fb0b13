# State (.coulisse/) and coulisse.yaml live in /data: mount it.
#   docker build -t coulisse .
#   docker run -v "$PWD/data:/data" -p 8421:8421 -e OPENAI_API_KEY coulisse
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 COULISSE_CONFIG=/data/coulisse.yaml
WORKDIR /app

COPY requirements.txt .
RUN pip install --no-cache-dir -r requirements.txt

COPY . .
RUN useradd --create-home coulisse && mkdir /data && chown coulisse /data
USER coulisse
VOLUME /data
EXPOSE 8421

HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD \
    python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:8421/health/ready', timeout=2)"
CMD ["python", "manage.py", "start", "--foreground"]
