"""What the page asks: one JSON shape per path, errors as ``{"error": in words}``."""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cotenant.errors import CotenantError, QuestionError, StoreError
from cotenant.query.screens import activity, fleet
from cotenant.query.screens.timeline import details, status
from cotenant.query.screens.timeline.strip import strip
from cotenant.query.screens.timeline.tiles import CELLS, MAX_CELL_NS
from cotenant.schema.families import FAMILIES
from cotenant.schema.family import Family
from cotenant.views import text
from cotenant.views.web import insight, plain
from cotenant.views.web.node_readers import NodeReaders
from cotenant.views.web.reader import Reader
from cotenant.views.web.worker import Worker

_MOST_BODY: Final = 64 << 10
_MOST_NS: Final = 2**63 - 1

Endpoint = Callable[[Request], Awaitable[Response]]


class BadRequest(CotenantError):
    """The request cannot mean anything."""


class Api:
    """The endpoints over one store."""

    def __init__(self, reader: Reader, worker: Worker, analyst: Worker) -> None:
        self._readers, self._worker = NodeReaders(reader), worker
        self._insight = insight.Insight(analyst, self._readers)

    def _reader(self, request: Request) -> Reader:
        """Of the node that the request names, or of all."""
        return self._readers.of(request.query_params.get("node"))

    def warm(self) -> None:
        """Compute what takes longest ahead of the first visitor."""
        self._insight.warm()

    def endpoints(self) -> dict[str, tuple[str, Endpoint]]:
        """Path to method and handler."""
        reads: dict[str, Callable[[Request], Any]] = {
            "status": self._status,
            "tile": self._tile,
            "event": self._event,
            "cell": self._cell,
            "tables": self._tables,
            "queued": self._queued,
            "strip": self._strip,
            "questions": lambda _: insight.questions(self._readers.whole.tenant),
            "interference": lambda request: self._insight.interference(self._reader(request)),
            "findings": lambda request: self._insight.findings(self._reader(request)),
            "fleet": lambda request: self._insight.fleet(self._reader(request)),
        }
        found: dict[str, tuple[str, Endpoint]] = {
            f"/api/{name}": ("GET", self._answering(read)) for name, read in reads.items()
        }
        found["/api/sql"] = ("POST", self._sql)
        return found

    def _status(self, request: Request) -> dict[str, Any]:
        reader = self._reader(request)
        nodes = reader.nodes()
        if len(nodes) > fleet.MANY:
            known = {"version": reader.version(), "store": reader.store.name, "nodes": nodes}
            return {"state": "fleet", **known}
        lanes = reader.lanes
        survey = lanes.survey
        newest = reader.newest_ns()
        start, end = survey.start_ns, survey.end_ns
        if newest is not None:
            start = newest if start is None else start
            end = max(end or 0, newest)
        return {
            "state": "empty" if newest is None else "live" if reader.live() else "recorded",
            "version": reader.version(),
            "behind_s": None if newest is None else round(time.time() - newest / 1e9, 1),
            "tenant": reader.tenant,
            "store": reader.store.name,
            "nodes": nodes,
            "start_ns": None if start is None else str(start),
            "end_ns": None if end is None else str(end),
            "newest_ns": _text(survey.newest_ns),
            "survey": survey.number,  # Older than the version: tiles are made by what it found,
            "surveyed_ns": _text(survey.end_ns),  # and are known to be right up to here.
            "families": [_family(family) for family in FAMILIES.values()],
            "tenants": [
                {"name": name, "events": (survey.events or {})[name]} for name in survey.order
            ],
            "lanes": [{**asdict(lane), "stream": _text(lane.stream)} for lane in lanes.all],
            "cells": CELLS,
            "lacks": text.incompleteness(status.standing(reader.session())),
        }

    def _tile(self, request: Request) -> dict[str, Any]:
        start = _number(request, "from")
        cell = _number(request, "cell", most=MAX_CELL_NS)
        if cell < 1 or cell & (cell - 1) or start + CELLS * cell > _MOST_NS:
            raise BadRequest("cell is a power of two, in ns")
        reader = self._reader(request)
        made = reader.tile(start, cell)
        return {**asdict(made), "start_ns": str(start), "lanes": len(reader.lanes.all)}

    def _event(self, request: Request) -> dict[str, Any]:
        family = request.query_params.get("family", "")
        if family not in FAMILIES:
            raise BadRequest(f"there is no family {family!r}")
        sql = details.event_sql(family, _number(request, "at"), _number(request, "tid"))
        return plain.answer(self._reader(request).ask(sql))

    def _cell(self, request: Request) -> dict[str, Any]:
        reader = self._reader(request)
        lane = reader.lane(_number(request, "lane"))
        start, end = _number(request, "from"), _number(request, "to")
        return plain.answer(reader.ask(details.cell_sql(lane, reader.lanes.all, start, end)))

    def _queued(self, request: Request) -> dict[str, Any]:
        start, end = _period(request)
        return self._reader(request).queued(start, end)

    def _strip(self, request: Request) -> dict[str, Any]:
        start, end = _period(request)
        return strip(self._reader(request).session(), start, end)

    def _tables(self, request: Request) -> dict[str, Any]:
        reader = self._reader(request)
        start, end = _period(request)
        asked = {
            "tenants": activity.tenants_sql(start, end),
            "kernels": activity.kernels_sql(start, end),
            "collectives": activity.collectives_sql(start, end),
        }
        found = {name: plain.answer(reader.ask(sql)) for name, sql in asked.items()}
        used = reader.gpu_use(start, end)
        return found if used is None else found | {"gpu_use": plain.answer(used)}

    async def _sql(self, request: Request) -> Response:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST_BODY:
                return JSONResponse({"error": "a question has at most 64 KiB"}, 413)
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return JSONResponse({"error": "send JSON"}, 415)
        try:
            sql = json.loads(bytes(body))["sql"]
        except (ValueError, KeyError, TypeError):
            sql = None
        if not isinstance(sql, str):
            return JSONResponse({"error": 'send {"sql": "..."}'}, 400)
        ask = self._worker.ask
        return await self._answering(lambda sent: ask(sql, self._reader(sent).named))(request)

    def _answering(self, read: Callable[[Request], Any]) -> Endpoint:
        """The endpoint of a function that may wait: run in a thread, its errors told in words."""

        async def endpoint(request: Request) -> Response:
            try:
                content = await run_in_threadpool(read, request)
            except StoreError as error:
                return JSONResponse(
                    {"error": self._readers.whole.words(error), "store": False}, 503
                )
            except (QuestionError, BadRequest) as error:
                return JSONResponse({"error": self._readers.whole.words(error)}, 400)
            return JSONResponse(content)

        return endpoint


def _family(family: Family) -> dict[str, Any]:
    """What the page needs to know of a family."""
    streams = "stream" in family.lanes_by
    return {"name": family.name, "title": family.title, "gpu": family.gpu, "streams": streams}


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _number(request: Request, name: str, *, most: int = _MOST_NS) -> int:
    given = request.query_params.getlist(name)
    if len(given) != 1 or not (given[0].isascii() and given[0].isdecimal()) or len(given[0]) > 19:
        raise BadRequest(f"{name} is one whole number")
    number = int(given[0])
    if number > most:
        raise BadRequest(f"{name} is at most {most}")
    return number


def _period(request: Request) -> tuple[int, int]:
    start, end = _number(request, "from"), _number(request, "to")
    if end <= start:
        raise BadRequest("to is after from")
    return start, end
