from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.errors import TerminalError, TransientError
from headrace.sources import connect
from headrace.sources.connect import ConnectClient, ConnectorFile, ConnectorStatus
from headrace.sources.postgres.bulk.record import LoadRecord, load_record
from headrace.sources.registration import register


class Worker:
    """A Connect worker's REST interface over one dictionary."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.calls: list[str] = []
        self.states: list[str] = ["RUNNING"]
        self.conflicts = 0
        self.offsets: list[dict[str, Any]] = []

    def client(self) -> ConnectClient:
        return ConnectClient("http://connect", transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.path, json.loads(request.content or "null")
        self.calls.append(f"{request.method} {path}")
        if self.conflicts:
            self.conflicts -= 1
            if request.method == "GET" and self.conflicts % 2:  # a worker that waits for the others says so
                why = "Request cannot be completed because a rebalance is expected"
                return httpx.Response(500, json={"error_code": 500, "message": why})
            return httpx.Response(409, json={"message": "rebalancing"})
        if path == "/connectors" and request.method == "POST":
            self.configs[body["name"]] = {"name": body["name"], **body["config"]}
            self.states = [body["initial_state"]]
            return httpx.Response(201, json={})
        if path == "/connectors":
            return httpx.Response(200, json=list(self.configs))
        name, what = path.split("/")[2:4]
        if what == "offsets":
            if request.method == "PATCH":
                assert self.states == ["STOPPED"]
                self.offsets = body["offsets"]
            return httpx.Response(200, json={"offsets": self.offsets})
        if what in ("stop", "resume"):
            self.states = ["STOPPED" if what == "stop" else "RUNNING"]
            return httpx.Response(202)
        if request.method == "PUT":
            if "connector.class" not in body:
                return httpx.Response(400, json={"error_code": 400, "message": "no connector.class"})
            self.configs[name] = {"name": name, **body}
        if name not in self.configs:
            return httpx.Response(404, json={"message": "no such connector"})
        if what == "status":
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            trace = "a.b.Exception: x\n\tat y\nCaused by: c.d.Error: the slot is gone\n\tat z"
            if state == "STOPPED":
                return httpx.Response(200, json={"connector": {"state": state}, "tasks": []})
            tasks = [] if state == "UNASSIGNED" else [{"id": 0, "state": state, "trace": trace}]
            return httpx.Response(200, json={"connector": {"state": "RUNNING"}, "tasks": tasks})
        return httpx.Response(200, json=self.configs[name])


FILE = ConnectorFile("shop", {"connector.class": "x", "topic.prefix": "shop"}, Path("shop.json"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "POLL_SECONDS", 0)
    monkeypatch.setattr(connect, "RESTART_SECONDS", 0)


def test_a_loaded_source_streams_from_its_snapshot(tmp_path: Path) -> None:
    worker = Worker()
    file = replace(FILE, config={**FILE.config, "snapshot.mode": "initial"})
    LoadRecord("shop", "slot", "LOADED", lsn=4711).save(tmp_path)
    with worker.client() as client:
        register(client, file, load_record(tmp_path, "shop"), tmp_path, tmp_path / "password")
        [position] = worker.offsets
        assert position["partition"] == {"server": "shop"} and position["offset"]["lsn"] == 4711
        assert worker.states == ["RUNNING"]
        assert worker.configs["shop"]["snapshot.mode"] == "no_data"
        done = load_record(tmp_path, "shop")
        assert done is not None and done.state == "STREAMING"
        worker.offsets = [{"offset": {"lsn": 5000}}]
        calls = len(worker.calls)
        register(client, file, done, tmp_path, tmp_path / "password")  # as every `headrace up` does
        assert worker.calls[calls:] == ["GET /connectors/shop/config", "GET /connectors/shop/status"]
        # killed before it was noted that the connector has its position
        register(client, file, replace(done, state="LOADED"), tmp_path, tmp_path / "password")
        assert worker.offsets == [{"offset": {"lsn": 5000}}] and worker.states == ["RUNNING"]


def test_a_connector_registered_during_an_unfinished_load_is_refused(tmp_path: Path) -> None:
    with Worker().client() as client, pytest.raises(TerminalError, match="did not end"):
        register(client, FILE, LoadRecord("shop", "slot", "LOADING"), tmp_path, tmp_path / "password")


def test_registering_again_does_not_disturb_the_connector() -> None:
    worker = Worker()
    with worker.client() as client:
        client.put_connector(FILE)
        client.put_connector(FILE)
    assert [call for call in worker.calls if call.startswith("PUT")] == ["PUT /connectors/shop/config"]


def test_a_rebalance_is_waited_for() -> None:
    worker = Worker()
    worker.conflicts = 3
    with worker.client() as client:
        client.put_connector(FILE)
    assert "shop" in worker.configs


def test_a_refused_file_is_named_with_the_reason() -> None:
    wrong = ConnectorFile("shop", {}, Path("deploy/connectors/shop.json"))
    with Worker().client() as client, pytest.raises(TerminalError) as error:
        client.put_connector(wrong)
    assert str(error.value).startswith("deploy/connectors/shop.json: ")
    assert "(400): no connector.class" in str(error.value)


def test_waits_until_the_task_runs() -> None:
    worker = Worker()
    worker.states = ["FAILED", "UNASSIGNED", "FAILED", "UNASSIGNED", "RUNNING"]
    with worker.client() as client:
        client.put_connector(FILE)
        client.wait_running("shop")
    assert worker.states == ["RUNNING"]
    assert worker.calls.count("GET /connectors/shop/status") == 5


def test_a_failed_task_says_its_cause() -> None:
    worker = Worker()
    worker.states = ["FAILED"]
    with worker.client() as client:
        client.put_connector(FILE)
        with pytest.raises(TerminalError, match=r"connector `shop` failed: c\.d\.Error: the slot is gone"):
            client.wait_running("shop")


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        (
            "a.Error: x\n\tat b.C\nCaused by: d.Error: y\n\tat e.F\nCaused by: g.Error: z\n\tat h.I",
            "g.Error: z",
        ),
        ("a.Error: x\n\tat b.C\n\tat java.base/java.lang.Thread.run", "a.Error: x"),
        ("", ""),
    ],
)
def test_a_cause_is_what_was_thrown_and_no_line_of_its_stack(trace: str, cause: str) -> None:
    assert ConnectorStatus("shop", "FAILED", trace).cause == cause


def test_a_connector_is_moved_to_another_position() -> None:
    worker = Worker()
    with worker.client() as client:
        client.put_connector(FILE)
        client.stop("shop")
        assert worker.states == ["STOPPED"]
        client.resume_at("shop", "shop", 5000)
    [position] = worker.offsets
    assert position["partition"] == {"server": "shop"}
    assert position["offset"]["lsn"] == 5000
    assert worker.states == ["RUNNING"]


def test_an_unknown_connector_is_unregistered() -> None:
    with Worker().client() as client:
        assert client.status("shop").state == "UNREGISTERED"


def test_a_worker_that_does_not_answer_names_the_next_command() -> None:
    with ConnectClient("http://127.0.0.1:1") as client:
        with pytest.raises(TransientError, match="run `headrace up`"):
            client.names()
        with pytest.raises(TransientError, match="is not ready after 0 s"):
            client.wait_ready(timeout=0)


@pytest.mark.parametrize(("answered", "ready"), [(200, True), (404, True), (503, False)])
def test_a_worker_without_a_health_check_is_ready_when_it_answers(answered: int, ready: bool) -> None:
    """Workers before Kafka 3.9 have none."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(answered)

    transport = httpx.MockTransport(answer)
    with ConnectClient("http://connect", transport=transport) as client:
        if ready:
            client.wait_ready(timeout=0)
        else:
            with pytest.raises(TransientError, match="is not ready"):
                client.wait_ready(timeout=0)
    assert set(asked) == {"/health"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{\n "name": }', ":2:10: not JSON"),
        ("[]", "a connector file reads"),
        ('{"name": 1}', "a connector file"),
    ],
)
def test_what_is_no_connector_file_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "shop.json").write_text(text)
    with pytest.raises(TerminalError) as error:
        ConnectorFile.read(tmp_path / "shop.json")
    assert str(error.value).startswith(str(tmp_path / "shop.json"))
    assert said in str(error.value)


def test_topics_are_those_of_tables_named_outright() -> None:
    config = {"topic.prefix": "shop", "table.include.list": "public.orders, public.users,public\\.log_.*"}
    assert ConnectorFile("shop", config, Path()).topics() == ["shop.public.orders", "shop.public.users"]


def test_a_login_in_the_address_is_sent_and_never_shown() -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("authorization", ""))
        return httpx.Response(200, json=[])

    url = "http://ann:s%40cret@connect:8083"
    with ConnectClient(url, transport=httpx.MockTransport(answer)) as client:
        client.check("/health")
        assert client.names() == [] and client.url == "http://connect:8083"
    assert sent == ["Basic " + base64.b64encode(b"ann:s@cret").decode()] * 2


@pytest.mark.parametrize("url", ["http://ann:secret@connect:8083", "http://connect:8083"])
def test_who_is_not_let_in_is_told_what_to_set(url: str) -> None:
    refusing = httpx.MockTransport(lambda request: httpx.Response(401))
    with ConnectClient(url, transport=refusing) as client:
        for call in (client.names, client.check, client.wait_ready):
            with pytest.raises(TerminalError, match=r"Next: .*`connect_url`.*`headrace up`") as error:
                call()
            assert "secret" not in str(error.value) and "http://connect:8083" in str(error.value)
