"""A far store in a bucket that speaks S3, by Arrow's client.

Endpoint, region and credentials come from where every such client has them: ``AWS_ENDPOINT_URL``,
``AWS_REGION``, ``AWS_ACCESS_KEY_ID`` and so on, or the files below ``~/.aws``.
"""

import io
import os
import re
import time
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit

from pyarrow import fs

from cotenant.errors import StoreError, UsageError
from cotenant.remote.pace import Pace
from cotenant.remote.place import S3, Listed, chunks
from cotenant.store.layout import MARK, mark

_ATTEMPTS: Final = 5
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 60.0
_REFUSED: Final = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_SIGNATURE|"
    r"EXPIRED_TOKEN|INVALID_CLIENT_TOKEN_ID|UNRECOGNIZED_CLIENT|HTTP status 40[13]"
)
_NO_BUCKET: Final = re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|[Bb]ucket '.*' not found")
_NO_ANSWER: Final = re.compile(r"NETWORK_CONNECTION|curlCode")


def _endpoint() -> dict[str, Any]:
    """The endpoint that the environment names, as arguments of Arrow's client."""
    url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not url:
        return {"region": region} if region else {}
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"AWS_ENDPOINT_URL={url} is no address; write https://HOST:PORT")
    # By default the client sends its own checksum behind the content, which other servers than
    # Amazon's refuse for want of a length (radosgw of Ceph 16: 411).
    os.environ.setdefault("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    # Without a region, it would ask Amazon's network for it.
    given = {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    return given | {"region": region or "us-east-1"}


class Bucket:
    """Objects below a prefix of a bucket."""

    def __init__(self, where: str) -> None:
        self._base = where.removeprefix(S3).rstrip("/")
        self.name = f"{S3}{self._base}"
        self._bucket = self._base.partition("/")[0]
        if not self._bucket or "//" in self._base or {".", ".."} & set(self._base.split("/")):
            raise UsageError(f"{where} names no bucket; write {S3}BUCKET/PREFIX")
        self._fs = fs.S3FileSystem(
            **_endpoint(),
            connect_timeout=_CONNECT_S,
            request_timeout=_ANSWER_S,
            allow_delayed_open=True,  # One request for a small object, not four.
            background_writes=False,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        )

    def prepare(self) -> None:
        """Put the mark of a store, if there is none."""
        try:
            self.read(MARK)
        except FileNotFoundError:
            self.write(MARK, io.BytesIO(mark(time.time_ns())), Pace())

    def read(self, path: str) -> bytes:
        """The content of an object."""
        try:
            with self._fs.open_input_file(f"{self._base}/{path}") as content:
                size = content.size()
                read = bytes(content.read())
        except FileNotFoundError as error:
            self._check_bucket(error)
            raise
        except OSError as error:
            raise self._error("read", path, error) from error
        if len(read) != size:
            raise StoreError(f"cannot read {self.name}/{path}: it was cut short; try again")
        return read

    def _check_bucket(self, missing: FileNotFoundError) -> None:
        """Raise StoreError if it is the bucket that is not there."""
        try:
            found = self._fs.get_file_info(self._bucket)
        except OSError as error:
            raise self._error("read", "", error) from error
        if found.type == fs.FileType.NotFound:
            raise self._no_bucket() from missing

    def _no_bucket(self) -> StoreError:
        return StoreError(f"there is no bucket {self._bucket}; make it, or name another one")

    def write(self, path: str, content: BinaryIO, pace: Pace) -> None:
        """Put an object."""
        try:
            with self._fs.open_output_stream(f"{self._base}/{path}") as stream:
                for chunk in chunks(content, pace):
                    stream.write(chunk)
        except OSError as error:
            raise self._error("write", path, error) from error

    def listed(self, folder: str) -> dict[str, Listed]:
        """The objects of a folder."""
        chosen = fs.FileSelector(f"{self._base}/{folder}", allow_not_found=True)
        try:
            found = self._fs.get_file_info(chosen)
        except OSError as error:
            raise self._error("list", folder, error) from error
        return {
            info.base_name: Listed(info.size, info.mtime_ns or 0)
            for info in found
            if info.type == fs.FileType.File
        }

    def remove(self, path: str) -> None:
        """Delete an object, if it is there."""
        try:
            self._fs.delete_file(f"{self._base}/{path}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._error("delete", path, error) from error

    def _error(self, doing: str, path: str, error: OSError) -> StoreError:
        """One line: what failed, on what, and what to do about it."""
        said = " ".join(str(error).split())
        what = f"cannot {doing} {self.name}/{path}"
        if _NO_BUCKET.search(said):
            return self._no_bucket()
        if _REFUSED.search(said):
            return StoreError(
                f"{what}: refused; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what "
                "they may do there"
            )
        if _NO_ANSWER.search(said):
            where = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            return StoreError(f"{what}: no answer from {where or 'S3'}; is it reachable?")
        return StoreError(f"{what}: {said}")
