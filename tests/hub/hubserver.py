"""A server that speaks the hub's HTTP API as huggingface_hub calls it, over a socket, with faults on demand."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_" + "secret" * 6
LARGE = (".safetensors", ".wav", ".bin", ".pt", ".parquet")  # in large file storage


@dataclass
class Repository:
    """A repository: its commits (files by sha), the newest last."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    licence: str = "apache-2.0"
    private: bool = False
    gated: bool = False

    def commit(self, files: Mapping[str, bytes]) -> str:
        sha = hashlib.sha1(repr((len(self.commits), sorted(files.items()))).encode()).hexdigest()
        self.commits[sha] = dict(files)
        self.branches["main"] = sha
        return sha


@dataclass
class Faults:
    """What goes wrong, for large files.

    Attributes:
        cuts: lengths after which the next answers are cut.
        stalls: lengths after which the next answers wait until the server ends.
        changed: content sent in the place of files, by name.
        trickle_s: pause before each 16 bytes.
        info: fields of a listing that are others.
        silent: answers of any kind never come.
        ignores_range: all of a file is sent in any case.
    """

    cuts: list[int] = field(default_factory=list)
    stalls: list[int] = field(default_factory=list)
    changed: dict[str, bytes] = field(default_factory=dict)
    trickle_s: float = 0.0
    silent: bool = False
    ignores_range: bool = False
    status: int = 0
    listed: list[dict[str, Any]] | None = None
    info: dict[str, Any] = field(default_factory=dict)


@dataclass
class Hub:
    """The server's state; datasets are repositories named ``datasets/owner/name``."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    large: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    url: str = ""
    large_url: str = ""  # of another origin, as a content network has
    stopping: threading.Event = field(default_factory=threading.Event)

    def repository(self, name: str) -> Repository:
        return self.repositories.setdefault(name, Repository())

    def asked(self, method: str, part: str) -> list[dict[str, str]]:
        """Headers of the requests whose path holds a part."""
        return [headers for verb, path, headers in self.requests if verb == method and part in path]


@contextmanager
def hub_server() -> Iterator[Hub]:
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
    hub.url, hub.large_url = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    threads = [threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True) for one in servers]
    for server, thread in zip(servers, threads, strict=True):
        server.daemon_threads = True
        thread.start()
    try:
        yield hub
    finally:
        hub.stopping.set()
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sibling(name: str, data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": git_sha1(data)}
    if name.endswith(LARGE):
        found["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
    return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def handle(self) -> None:
        with suppress(ConnectionError):  # clients leave
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.path_only = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, self.path_only, dict(self.headers.items())))
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.hub.faults.silent:
            self.hub.stopping.wait(30)
            self.close_connection = True
            return
        for pattern, answer in _ROUTES:
            if found := re.fullmatch(pattern, f"{self.command} {self.path_only}"):
                answer(self, *found.groups())
                return
        self._json({"error": "no such route"}, 404)

    # Answers.

    def _json(self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, one in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, one)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _error(self, status: int, code: str, message: str) -> None:
        self._json({"error": message}, status, {"X-Error-Code": code, "X-Error-Message": message})

    def _send(self, name: str, data: bytes, headers: Mapping[str, str]) -> None:
        faults = self.hub.faults
        start, asked = 0, re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and not faults.ignores_range:
            start = int(asked[1])
            if start >= len(data):
                self._json({}, 416, {"Content-Range": f"bytes */{len(data)}"})
                return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if self.command == "HEAD":
            return
        data = data[start:]
        if name.endswith(LARGE) and faults.cuts:
            self.wfile.write(data[: faults.cuts.pop(0)])
            self.close_connection = True
            return
        if name.endswith(LARGE) and faults.stalls:
            self.wfile.write(data[: faults.stalls.pop(0)])
            self.wfile.flush()
            self.hub.stopping.wait(30)
            self.close_connection = True
            return
        while data and faults.trickle_s and not self.hub.stopping.wait(faults.trickle_s):
            self.wfile.write(data[:16])
            self.wfile.flush()
            data = data[16:]
        self.wfile.write(data)

    # Access.

    def _open(self, name: str, revision: str) -> tuple[Repository, str] | None:
        """The repository and the commit; None after an error was answered."""
        repository = self.hub.repositories.get(name)
        has_token = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if self.hub.faults.status:
            self._json({"error": "as the test wants"}, self.hub.faults.status)
        elif self.headers.get("Authorization") and not has_token:
            self._error(401, "", "Invalid credentials in Authorization header")
        elif repository is None or (repository.private and not has_token):
            self._error(404 if has_token else 401, "RepoNotFound", "Repository not found")
        elif (sha := repository.branches.get(revision, revision)) not in repository.commits:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return repository, sha
        return None

    def _info(self, name: str, revision: str = "main") -> None:
        if name in self.hub.moved:
            self._json({}, 307, {"Location": f"/api/models/{self.hub.moved[name]}"})
        elif found := self._open(name, revision):
            repository, sha = found
            files = [sibling(path, data) for path, data in repository.commits[sha].items()]
            self._json({
                "id": name.removeprefix("datasets/"),
                "sha": sha,
                "private": repository.private,
                "gated": "manual" if repository.gated else False,
                "cardData": {"license": repository.licence} if repository.licence else {},
                "siblings": files if self.hub.faults.listed is None else self.hub.faults.listed,
                **self.hub.faults.info,
            })  # fmt: skip

    def _resolve(self, name: str, revision: str, path: str) -> None:
        if found := self._open(name, revision):
            repository, sha = found
            if repository.gated and self.headers.get("Authorization") is None:
                self._error(401, "GatedRepo", "Access to this repository is restricted")
            elif repository.gated:
                self._error(403, "GatedRepo", "You are not in the authorized list")
            elif path not in repository.commits[sha]:
                self._error(404, "EntryNotFound", "Entry not found")
            else:
                self._send_entry(sha, path, repository.commits[sha][path])

    def _paths(self, name: str, revision: str) -> None:
        if found := self._open(name, revision):
            files = found[0].commits[found[1]]
            asked = [path for path in parse_qs(self.body.decode())["paths"] if path in files]
            self._json([_entry(path, files[path]) for path in asked])

    def _send_entry(self, sha: str, path: str, data: bytes) -> None:
        headers = {"X-Repo-Commit": sha, "ETag": f'"{git_sha1(data)}"'}
        if not path.endswith(LARGE):
            self._send(path, self.hub.faults.changed.get(path, data), headers)
            return
        digest = hashlib.sha256(data).hexdigest()
        self.hub.large[digest] = data
        headers |= {"X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{digest}"', "ETag": f'"{digest}"'}
        self._json({}, 302, headers | {"Location": f"{self.hub.large_url}/large/{path}/{digest}?signature=private"})

    def _large(self, path: str, digest: str) -> None:
        self._send(path, self.hub.faults.changed.get(path, self.hub.large[digest]), {"ETag": f'"{digest}"'})

    # Uploads.

    def _may_write(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return True
        self._error(401, "", "Invalid credentials in Authorization header")
        return False

    def _create(self) -> None:
        if self._may_write():
            asked = json.loads(self.body)
            kind = "datasets/" if asked.get("type") == "dataset" else ""
            name = f"{kind}{asked['organization']}/{asked['name']}"
            if name in self.hub.repositories:
                self._json({"error": "You already created this repo", "url": f"{self.hub.url}/{name}"}, 409)
                return
            private = bool(asked.get("private")) or asked.get("visibility") == "private"
            self.hub.repository(name).private = private
            self.hub.repository(name).commit({})
            self._json({"url": f"{self.hub.url}/{name}"})

    def _preupload(self, kind: str, name: str, revision: str) -> None:
        if self._may_write():
            files = json.loads(self.body)["files"]
            modes = [{"path": one["path"], "uploadMode": _mode(one["path"]), "shouldIgnore": False} for one in files]
            self._json({"files": modes})

    def _batch(self, name: str) -> None:
        if self._may_write():
            objects = json.loads(self.body)["objects"]
            upload = [one | {"actions": {"upload": {"href": f"{self.hub.url}/put/{one['oid']}"}}} for one in objects]
            self._json({"transfer": "basic", "objects": upload})

    def _put(self, oid: str) -> None:
        assert hashlib.sha256(self.body).hexdigest() == oid
        self.hub.large[oid] = self.body
        self._json({})

    def _commit(self, kind: str, name: str, revision: str) -> None:
        if self._may_write():
            repository = self.hub.repository(name if kind == "models" else f"{kind}/{name}")
            files = dict(repository.commits[repository.branches[revision]])
            for line in map(json.loads, self.body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    files[value["path"]] = self.hub.large[value["oid"]]
                elif line["key"] == "deletedFile":
                    del files[value["path"]]
            sha = repository.commit(files)
            self._json({"commitUrl": f"{self.hub.url}/{name}/commit/{sha}", "commitOid": sha})

    def _valid(self) -> None:
        self._json({"errors": [], "warnings": []})


def _entry(path: str, data: bytes) -> dict[str, Any]:
    one = sibling(path, data)
    found = {"type": "file", "path": path, "size": one["size"], "oid": one["blobId"]}
    if "lfs" in one:
        found["lfs"] = {"oid": one["lfs"]["sha256"], "size": one["size"], "pointerSize": 134}
    return found


def _mode(path: str) -> str:
    return "lfs" if path.endswith(LARGE) else "regular"


_REPO = r"((?:datasets/)?[\w.-]+/[\w.-]+)"
_ROUTES = (
    (r"GET /api/(?:models/)?((?:datasets/)?[\w.-]+/[\w.-]+)", _Handler._info),
    (rf"GET /api/models/{_REPO}/revision/(.+)", _Handler._info),
    (rf"POST /api/models/{_REPO}/paths-info/(.+)", _Handler._paths),
    (rf"(?:GET|HEAD) /{_REPO}/resolve/([^/]+)/(.+)", _Handler._resolve),
    (r"(?:GET|HEAD) /large/(.+)/(\w+)", _Handler._large),
    (r"POST /api/repos/create", _Handler._create),
    (r"POST /api/validate-yaml", _Handler._valid),
    (r"POST /api/(models|datasets)/([\w.-]+/[\w.-]+)/preupload/(.+)", _Handler._preupload),
    (rf"POST /{_REPO}\.git/info/lfs/objects/batch", _Handler._batch),
    (r"PUT /put/(\w+)", _Handler._put),
    (r"POST /api/(models|datasets)/([\w.-]+/[\w.-]+)/commit/(.+)", _Handler._commit),
)
