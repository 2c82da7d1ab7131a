"""An S3 server behind a proxy of ours, and clients of both."""

import contextlib
import logging
import os

import boto3
from moto.server import ThreadedMotoServer

from tests.unit.remote.faulty_proxy import FaultyProxy


@contextlib.contextmanager
def s3_server():
    """Its port: moto's, or on loopback that of another server, which knows the key ``key``."""
    if other := os.environ.get("COTENANT_S3_PORT"):
        yield int(other)
        return
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@contextlib.contextmanager
def proxied(port, monkeypatch):
    """The proxy, which fails nothing yet; the environment names it."""
    with FaultyProxy(port, fails=0, seed=23) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield proxy


@contextlib.contextmanager
def direct_client(port):
    """A client of somebody else's, past the proxy; the buckets that it makes do not stay."""
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    before = buckets(client)
    yield client
    for bucket in buckets(client) - before:
        empty(client, bucket)
        client.delete_bucket(Bucket=bucket)


def buckets(client):
    return {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}


def objects(client, bucket, prefix=""):
    """The keys of all objects."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [found["Key"] for page in pages for found in page.get("Contents", ())]


def empty(client, bucket):
    for key in objects(client, bucket):
        client.delete_object(Bucket=bucket, Key=key)


def download(client, bucket, prefix, to):
    """The far store as a directory."""
    for key in objects(client, bucket, prefix):
        if not key.endswith("/"):
            file = to / key.removeprefix(f"{prefix}/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(client.get_object(Bucket=bucket, Key=key)["Body"].read())


def upload(client, bucket, prefix, root):
    """A directory as objects."""
    for file in root.rglob("*"):
        if file.is_file():
            key = f"{prefix}/{file.relative_to(root)}"
            client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes())
