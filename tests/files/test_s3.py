"""Files in S3: the same endpoints, with the server of moto."""

import json
import uuid
from collections.abc import Iterator

import boto3
import openai
import pytest
from moto.server import ThreadedMotoServer

from files.storage import content
from tests.conftest import CONFIG
from tests.files.samples import pdf
from tests.gateway.calls import until

pytestmark = [
    pytest.mark.database,
    # Of botocore and moto.
    pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning"),
]

BUCKET = "coulisse-files"


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The address of an S3 server with a bucket."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3, configure):
    """The bucket that the server uses."""
    resource = boto3.resource(
        "s3",
        endpoint_url=s3,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    settings = {
        "bucket": BUCKET,
        "region": "us-east-1",
        "endpoint_url": s3,
        "access_key_id": "key",
        "secret_access_key": "secret-b7Kq9ZpQ8wXv5LmT2dHs",
    }
    storage = {"backend": "s3", "s3": settings}
    configure(f"{CONFIG}\nstorage: {json.dumps(storage)}\n")
    bucket = resource.Bucket(BUCKET)
    bucket.create()
    yield bucket
    resource.meta.client.close()


def names(bucket) -> set[str]:
    return {item.key for item in bucket.objects.all()}


def test_file_in_s3(mine, bucket, fake):
    data = pdf("Ham and eggs")
    file = mine.files.create(file=("a.pdf", data), purpose="user_data")
    name = f"coulisse/{file.id.removeprefix('file-')}"
    assert name in names(bucket)
    assert mine.files.content(file.id).content == data
    fake.reply("Hello.")
    part = {"type": "file", "file": {"file_id": file.id}}
    mine.chat.completions.create(
        model="assistant", messages=[{"role": "user", "content": [part]}]
    )
    assert "Ham and eggs" in fake.bodies[-1]["messages"][-1]["content"]
    mine.files.delete(file.id)
    until(lambda: name not in names(bucket))


def test_lost_object_is_reported_and_stored_again(mine, bucket):
    file = mine.files.create(file=("a.txt", b"lost"), purpose="user_data")
    bucket.Object(f"coulisse/{file.id.removeprefix('file-')}").delete()
    with pytest.raises(openai.InternalServerError) as refused:
        mine.files.content(file.id)
    assert refused.value.code == "file_content_missing"
    mine.files.create(file=("a.txt", b"lost"), purpose="user_data")
    assert mine.files.content(file.id).content == b"lost"


def test_unreachable_bucket_is_reported(mine, bucket, s3):
    for item in bucket.objects.all():
        item.delete()
    bucket.delete()
    with pytest.raises(openai.InternalServerError) as refused:
        mine.files.create(
            file=("a.txt", uuid.uuid4().bytes.hex().encode()), purpose="user_data"
        )
    assert (refused.value.status_code, refused.value.code) == (
        503,
        "storage_unavailable",
    )
    assert BUCKET not in refused.value.message


def test_deletion_of_a_missing_object_is_no_error(bucket):
    before = {each.key for each in bucket.objects.all()}
    content.delete(uuid.uuid4())
    assert {each.key for each in bucket.objects.all()} == before
