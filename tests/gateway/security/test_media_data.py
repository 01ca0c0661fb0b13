"""Image addresses: public hosts and data only."""

import base64
from typing import Any

import pytest

from core.network import private_hosts
from tests.conftest import CONFIG
from tests.gateway.calls import body, post, refused

pytestmark = pytest.mark.database

PIXEL = "data:image/png;base64,iVBORw0KGgo="

PRIVATE = [
    "http://localhost/a.png",
    "http://LOCALHOST:8000/",
    "https://localhost./",
    "http://a.localhost/",
    "http://printer.local/",
    "http://db.internal/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://nas.lan/",
    "http://a.home.arpa/",
    "http://default.svc/",
    "http://redis/",
    "http://redis:80/",
    "http://127.0.0.1/",
    "http://127.0.0.1.:8421/",
    "http://10.1.2.3/",
    "http://172.16.0.1/",
    "http://192.168.1.1/",
    "http://169.254.169.254/latest",
    "http://100.64.0.1/",
    "http://0.0.0.0/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://127.1/",
    "http://0177.0.0.1/",
    "http://0x7f000001/",
    "http://010.0.0.1/",
    "http://8.8.8/",
    "http://8.8.8.0x8/",
    "http://1.2.3.4.5/",
    "http://256.1.1.1/",
    "http://example.0x/",
    "http://0/",
    "http://[::1]/",
    "http://[::]/",
    "http://[fe80::1]/",
    "http://[fc00::1]/",
    "http://[fd12:3456::1]:80/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b:1::10.0.0.1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:1::80ff:fffe]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[fec0::1]/",
    "http://example..com/",
    "http://example.com../",
    "http://./",
]
MALFORMED = [
    "ftp://example.com/a.png",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "gopher://example.com/",
    "//example.com/a.png",
    "example.com/a.png",
    "a.png",
    " ",
    "http:/example.com/",
    "http:example.com",
    "http://",
    "http:///example.com",
    "http://user@example.com/",
    "http://user:secret@example.com/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1@example.com/",
    "http://example.com\\@127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http://a.com/\\",
    "http://127.0.0.1\t/",
    "http://exa\nmple.com/",
    " http://example.com/",
    "http://example.com/a b",
    "http://example.com\u2028/",
    "http://exam\u00adple.com/",
    "http://\uff11\uff12\uff17.0.0.1/",
    "http://\u24dbocalhost/",
    "http://127。0。0。1/",
    "http://bücher.example/",
    "http://%31%32%37.0.0.1/",
    "http://[::1%25lo]/",
    "http://[fe80::1%lo]/",
    "http://[::1/",
    "http://::1/",
    "http://[v1.a]/",
    "http://example.com:port/",
    "http://example.com:123456/",
    "http://a,b.com/",
    "https://example.com/" + "a" * 8192,
]
BAD_DATA = [
    "data:",
    "data:,x",
    "data:image/png,x",
    "data:image/png;base64,",
    "data:text/html;base64,PGI+",
    "data:image/svg+xml;base64,PHN2Zz4=",
    "data:application/pdf;base64,JVBERg==",
    "data:image/*;base64,iVBORw0KGgo=",
    "data:image/png;base64,iVBORw0KGgo",
    "data:image/png;base64,iVBO Rw0KGgo=",
    "data:image/png;base64,____",
    "data:image/png;base64,iVBORw0KGgo=x",
    "data:image/png;base64,\u00e9",
    "data:image/png;a=b;base64,iVBORw0KGgo=",
]
PUBLIC = [
    "https://example.com/cat.png?size=1&at=x@y#z",
    "http://example.com:8080/",
    "https://EXAMPLE.com./a",
    "https://8.8.8.8/a.png",
    "https://xn--bcher-kva.example",
    "https://[2606:4700::1111]/a",
    "https://[2606:4700::1111]:443/a",
    "https://127.0.0.1.example.com/",
    "https://localhost.example.com/",
    "https://internal.example.com/",
    "https://a_b-c.example.com/%20?u=http://[::1]/",
    "https://example.com/größe.png",
]
DATA = [
    PIXEL,
    "DATA:image/PNG;BASE64,iVBORw0KGgo=",
    "data:image/webp;base64,UklGRg==",
    "data:image/jpg;base64,/9j/",
    "data:image/heic;base64,AAAA",
]


def asking(user: str, url: str, **more: Any) -> dict[str, Any]:
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    return body(user, messages=[{"role": "user", "content": parts}], **more)


def with_file(user: str, data: str) -> dict[str, Any]:
    part = {"type": "file", "file": {"file_data": data, "filename": "a.pdf"}}
    return body(user, messages=[{"role": "user", "content": [part]}])


@pytest.mark.parametrize("url", PRIVATE)
def test_private_host_is_refused(server, fake, user, url):
    refusal = refused(server, asking(user, url))
    assert refusal["param"] == "messages[0].content[1].image_url.url"
    assert refusal["type"] == "invalid_request_error"
    assert "is not public" in refusal["message"]
    assert "allow_private_images" not in refusal["message"]
    assert fake.requests == []


@pytest.mark.parametrize("url", [*MALFORMED, *BAD_DATA])
def test_malformed_address_is_refused(server, fake, user, url):
    refusal = refused(server, asking(user, url))
    assert refusal["param"] == "messages[0].content[1].image_url.url"
    assert len(refusal["message"]) < 300
    assert fake.requests == []


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("agent", ["assistant", "claude"])
def test_refusal_is_the_same_for_each_provider(server, fake, user, agent, stream):
    request = asking(user, "http://169.254.169.254/", agent=agent, stream=stream)
    assert "is not public" in refused(server, request)["message"]
    assert fake.requests == []


@pytest.mark.parametrize("url", [*PUBLIC, *DATA])
def test_public_address_and_data_are_passed_on(server, fake, user, url):
    assert post(server, asking(user, url)).status_code == 200
    sent = fake.bodies[-1]["messages"][-1]["content"][1]
    assert sent == {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize(
    "url",
    ["http://localhost/a.png", "http://10.0.0.5:8000/", "http://[::1]/", "http://nas/"],
)
def test_private_hosts_can_be_allowed(running, configure, fake, user, url):
    configure(f"{CONFIG}\nserver: {{allow_private_images: true}}\n")
    assert post(running, asking(user, url)).status_code == 200
    for other in ("file:///etc/passwd", "http://user@localhost/", "data:,x"):
        refused(running, asking(user, other))


@pytest.mark.parametrize("url", ["http://10.0.0.1/a.pdf", "file:///etc/passwd"])
def test_private_file_url_is_refused(server, fake, user, url):
    refusal = refused(server, with_file(user, url))
    assert refusal["param"] == "messages[0].content[0].file.file_data"
    assert fake.requests == []


def test_file_url_is_passed_on(server, fake, user):
    url = "https://example.com/a.pdf"
    assert post(server, with_file(user, url)).status_code == 200
    assert fake.bodies[-1]["messages"][-1]["content"][0]["file"]["file_data"] == url


def test_scheme_of_a_file_url_may_be_upper_case(server, fake, user):
    assert post(server, with_file(user, "HTTPS://example.com/a.pdf")).status_code == 200


@pytest.mark.parametrize(
    "data",
    ["", "@@", "aGk", "aGk=\n", "data:application/pdf;base64,!!", "data:text/plain,hi"],
)
def test_broken_file_data_is_refused(server, fake, user, data):
    refusal = refused(server, with_file(user, data))
    assert refusal["param"].startswith("messages[0].content[0].file")
    assert fake.requests == []


def test_broken_audio_is_refused(server, fake, user):
    audio = {"type": "input_audio", "input_audio": {"data": "@@", "format": "wav"}}
    message = {"role": "user", "content": [audio]}
    refusal = refused(server, body(user, messages=[message]))
    assert refusal["param"] == "messages[0].content[0].input_audio.data"


def test_image_as_large_as_the_body_limit_is_accepted(server, fake, user):
    data = base64.b64encode(b"\x89PNG" * 300_000).decode()
    url = f"data:image/png;base64,{data}"
    assert post(server, asking(user, url)).status_code == 200


def test_quoted_host_is_short(server, user):
    refusal = refused(server, asking(user, f"http://{'a' * 8000}/"))
    assert len(refusal["message"]) < 300


@pytest.mark.parametrize(
    "host", ["8.8.8.8", "1.1.1.1", "[2606:4700::1111]", "[64:ff9b::8.8.8.8]", "a.b.com"]
)
def test_public_hosts(host):
    assert not private_hosts.is_private(host)
