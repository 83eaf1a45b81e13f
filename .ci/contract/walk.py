"""Walks every row of the tables of the interface's specification with everybody who may call and who may not, and checks
status and shape. Written from the specification's text alone; its argument is the product's credentials.json."""

import hashlib
import hmac
import itertools
import json
import re
import sys
import time
import uuid
from datetime import datetime
from pathlib import Path

import requests
from client import Caller, log_in, session_of

STRING, NUMBER, BOOLEAN, OBJECT, ARRAY, TIMESTAMP = "string", "number", "boolean", "object", "array", "timestamp"
EVENT = {"id": STRING, "eventName": STRING, "userId": STRING, "properties": OBJECT, "timestamp": TIMESTAMP}
USER = {"id": STRING, "externalId": STRING, "email": STRING, "name": STRING, "properties": OBJECT}
SEGMENT = {"id": STRING, "name": STRING, "description": STRING, "rules": ARRAY, "userCount": NUMBER}
AUTOMATION = {"id": STRING, "name": STRING, "triggerType": "=EVENT", "triggerEvent": STRING, "active": BOOLEAN, "steps": ARRAY}
CAMPAIGN = {"id": STRING, "name": STRING, "channel": "=EMAIL", "segmentId": STRING, "templateId": STRING,
            "scheduledAt": TIMESTAMP, "status": "=SCHEDULED"}
TEMPLATE = {"id": STRING, "name": STRING, "channel": "=EMAIL", "subject": STRING, "body": STRING, "tags": ARRAY}
MESSAGE = {"id": STRING, "status": STRING, "userId": STRING, "channel": "=EMAIL", "subject": STRING, "body": STRING}
NEWS = {"id": STRING, "title": STRING, "body": STRING, "published": BOOLEAN}
KEY = {"id": STRING, "name": STRING, "prefix": STRING, "type": STRING}
DELETED = {"deleted": "=true"}

# Who is let in: by the specification's column, and for sessions by the role that it takes.
PUBLIC = {"public", "secret", "bearer", "member", "admin"}
SECRET = PUBLIC - {"public"}
# Keys and settings of a project are its ADMINs'.
MEMBER, ADMIN = {"member", "admin"}, {"admin"}
SECRET_OR_ADMIN = SECRET - {"member"}


def mailed_token(mail_dir, address):
    """The token of the newest invitation to an address: no answer of the API holds it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for file in sorted(mail_dir.glob("*"), key=lambda file: file.stat().st_mtime, reverse=True):
            text = file.read_text(errors="replace").replace("=\n", "").replace("=3D", "=")
            found = re.search(r"/accept-invite\?token=([0-9a-f]{64})", text)
            if found and address in text:
                return found[1]
        time.sleep(0.2)
    raise SystemExit(f"no invitation to {address} was mailed")


class Walk:
    def __init__(self, credentials):
        self.base, self.project = credentials["baseUrl"], credentials["projectId"]
        self.secret_of_webhook = credentials["webhookSecret"]
        self.wrong, self.rows, self.calls = [], 0, 0
        self.fresh = map("{:04d}".format, itertools.count())
        self.callers = self.everybody(credentials)
        self.admin = self.callers["admin"]

    def everybody(self, credentials):
        key = lambda text: Caller(self.base, {"x-api-key": text})
        admin = log_in(self.base, credentials["adminEmail"], credentials["adminPassword"], self.project)
        admin.send("PUT", f"/projects/{self.project}", {"rateLimit": 100_000})
        admin.made("/team/invites", {"email": "grace@example.com", "role": "MEMBER"})
        token = mailed_token(Path(credentials["mailDir"]), "grace@example.com")
        accepted = requests.post(f"{self.base}/auth/invites/accept", timeout=40,
                                 json={"token": token, "name": "Grace", "password": "correct horse"})
        accepted.raise_for_status()
        other = admin.made("/projects", {"name": "Another"})["id"]
        foreign = admin.send("POST", "/api-keys", {"name": "backend"}, {"X-Project-Id": other}).json()["key"]
        return {
            "none": Caller(self.base, {}),
            "public": key(credentials["publicKey"]),
            "secret": key(credentials["secretKey"]),
            "bearer": Caller(self.base, {"Authorization": f"Bearer {credentials['secretKey']}"}),
            "foreign": key(foreign),
            "member": session_of(self.base, accepted, self.project),
            "admin": admin,
        }

    def row(self, method, path, admitted, body=None, status=200, shape=None, **more):
        """Calls one row as everybody. `path` and `body` may be functions, for what each call uses up. Of another project
        nothing is found, and what is named in a body is not there."""
        self.rows += 1
        by_session = not admitted & {"secret"}
        for who, caller in self.callers.items():
            at, sent = (value() if callable(value) else value for value in (path, body))
            answer = caller.send(method, at, sent, more.get("headers"))
            if who in admitted:
                expected = {status}
            elif who == "none":
                expected = {401}
            elif who == "foreign" and not by_session:
                expected = {more.get("foreign", status)}
            else:
                expected = {403}
            self.check(f"{who}: {method} {at}", answer, expected, shape if who in admitted else None)

    def check(self, what, answer, statuses, shape):
        self.calls += 1
        if answer.status_code not in statuses:
            self.wrong.append(f"{what}: {answer.status_code} in place of {statuses}: {answer.text[:200]}")
        if "x-request-id" not in answer.headers or not answer.headers["content-type"].startswith("application/json"):
            self.wrong.append(f"{what}: {answer.headers}")
        body = answer.json()
        if answer.status_code >= 400:
            shape = {"error": STRING, "message": STRING, "status": f"={answer.status_code}"}
        if answer.status_code == 401 and not any(word in body["message"] for word in ("API key", "session", "X-Signature")):
            self.wrong.append(f"{what}: {body['message']}")
        self.wrong += [f"{what}: {problem} in {answer.text[:300]}" for problem in unlike(body, shape, "")]

    def made(self, path, body):
        return self.admin.made(path, body)["id"]

    def signed(self, body):
        raw = json.dumps(body)
        signature = hmac.new(self.secret_of_webhook.encode(), raw.encode(), hashlib.sha256).hexdigest()
        return requests.post(f"{self.base}/webhook/{self.project}", data=raw, timeout=40,
                             headers={"content-type": "application/json", "X-Signature": signature})


def unlike(value, shape, path):
    """Where a value is not of a shape. A list's shape is that of its items, of which there must be some."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{path or 'the body'} is no object"]
        missing = [f"{path}.{name} is missing" for name in shape if name not in value]
        return missing + [p for name in shape if name in value for p in unlike(value[name], shape[name], f"{path}.{name}")]
    if isinstance(shape, list):
        if not isinstance(value, list) or not value:
            return [f"{path} is no list, or empty"]
        return [p for item in value for p in unlike(item, shape[0], f"{path}[]")]
    if shape is None or (shape.startswith("=") and json.dumps(value).strip('"') == shape[1:]):
        return []
    fits = {
        STRING: isinstance(value, str),
        NUMBER: isinstance(value, (int, float)) and not isinstance(value, bool),
        BOOLEAN: isinstance(value, bool),
        OBJECT: isinstance(value, dict),
        ARRAY: isinstance(value, list),
        TIMESTAMP: isinstance(value, str) and is_time(value),
    }
    return [] if fits.get(shape) else [f"{path} is not {shape}"]


def is_time(text):
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    except ValueError:
        return False
    return len(text) == len("2026-01-31T08:15:30.250Z")


def events_and_users(walk):
    tracked = {"id": STRING, "status": STRING, "event": {"id": STRING, "eventName": "=bought", "userId": "=ada"}}
    wait = {"headers": {"Prefer": "wait=10"}}
    for body in ({"event": "bought", "user_id": "ada", "properties": {"n": 1}},
                 {"eventName": "bought", "userId": "ada", "anonymous_id": "a-1", "properties": {}}):
        walk.row("POST", "/events", PUBLIC, body, 202, tracked, **wait)
    batch = {"batch": [
        {"type": "identify", "user_id": "ada", "anonymous_id": "a-1", "properties": {"email": "ada@example.com", "name": "Ada"}},
        {"type": "track", "event": "bought", "user_id": "ada", "properties": {}, "timestamp": "2026-01-31T08:15:30+02:00"},
    ]}
    counted = {"success": "=true", "processed": "=2", "errors": "=0"}
    walk.row("POST", "/events/batch", PUBLIC, batch, 202, counted, **wait)
    page = {"events": [EVENT], "pagination": {"page": "=1", "limit": "=20", "total": NUMBER, "totalPages": NUMBER}}
    walk.row("GET", "/events", SECRET, None, 200, {**page, "events": None})
    walk.row("GET", "/events?event=bought&user=ada&search=bou&page=1&limit=20", SECRET, None, 200, page, foreign=200)

    def event():
        return "/events/" + walk.admin.send("POST", "/events", {"event": "bought", "user_id": "ada"}, wait["headers"]).json()["id"]

    walk.row("GET", event(), SECRET, None, 200, EVENT, foreign=404)
    walk.row("DELETE", event, SECRET, None, 200, DELETED, foreign=404)

    identity = {"user_id": "ada", "properties": {"email": "ada@example.com", "name": "Ada", "plan": "pro"}}
    identified = {"success": "=true", "user": {"id": STRING, "externalId": "=ada"}}
    walk.row("POST", "/users/identify", PUBLIC, identity, 202, identified, **wait)
    users = {"users": [USER], "total": NUMBER, "page": "=1"}
    walk.row("GET", "/users?search=ada%40example&page=1&limit=20&filter=active", SECRET, None, 200, users)
    walk.row("GET", "/users?filter=inactive", SECRET, None, 200, {"users": ARRAY, "total": "=0", "page": NUMBER})
    # Of this project alone: elsewhere there is another Ada, whom the rows above made.
    person = walk.callers["secret"].send("GET", "/users/ada").json()["id"]
    walk.row("GET", f"/users/{person}", SECRET, None, 200, USER, foreign=404)
    walk.row("GET", "/users/ada", SECRET, None, 200, USER)
    change = {"email": "ada@example.org", "properties": {"plan": "free"}}
    walk.row("PUT", f"/users/{person}", SECRET, change, 200, {**USER, "email": "=ada@example.org"}, foreign=404)

    def user():
        name = f"user-{next(walk.fresh)}"
        made = walk.admin.send("POST", "/users/identify", {"user_id": name}, wait["headers"]).json()
        return f"/users/{made['user']['id']}"

    walk.row("DELETE", user, SECRET, None, 200, DELETED, foreign=404)


def content(walk):
    rules = [{"field": "plan", "operator": "eq", "value": "free"}, {"field": "age", "operator": "gte", "value": 18}]
    segment = {"name": "Adults", "description": "Of age", "rules": rules}
    walk.row("POST", "/segments", SECRET, segment, 201, SEGMENT)
    walk.row("GET", "/segments", SECRET, None, 200, {"segments": [SEGMENT]})
    path = "/segments/" + (segment_id := walk.made("/segments", segment))
    walk.row("PUT", path, SECRET, {"name": "Grown up"}, 200, {**SEGMENT, "name": "=Grown up"}, foreign=404)
    walk.row("DELETE", lambda: "/segments/" + walk.made("/segments", segment), SECRET, None, 200, DELETED, foreign=404)
    walk.row("POST", "/segments/estimate", SECRET, {"rules": rules}, 200, {"estimatedCount": NUMBER})

    template = {"name": "Welcome", "channel": "EMAIL", "subject": "Hello {{ name }}", "body": "<p>Hello</p>", "tags": ["new"]}
    walk.row("POST", "/templates", SECRET, template, 201, TEMPLATE)
    walk.row("GET", "/templates?channel=EMAIL&ai=false", SECRET, None, 200, {"templates": [TEMPLATE]})
    walk.row("GET", "/templates?channel=PUSH&ai=true", SECRET, None, 200, {"templates": ARRAY})
    path = "/templates/" + (template_id := walk.made("/templates", template))
    walk.row("PUT", path, SECRET, {"subject": "Hi"}, 200, {**TEMPLATE, "subject": "=Hi"}, foreign=404)
    walk.row("DELETE", lambda: "/templates/" + walk.made("/templates", template), SECRET, None, 200, DELETED, foreign=404)

    steps = [{"type": "SEND_EMAIL", "templateId": template_id}, {"type": "WAIT", "delay": 259200}]
    automation = {"name": "Onboarding", "triggerType": "EVENT", "triggerEvent": "signed_up", "active": True, "steps": steps}
    walk.row("POST", "/automations", SECRET, automation, 201, AUTOMATION, foreign=422)
    walk.row("GET", "/automations", SECRET, None, 200, {"automations": [AUTOMATION]})
    path = "/automations/" + walk.made("/automations", automation)
    walk.row("PUT", path, SECRET, {"name": "Later", "active": False}, 200, {**AUTOMATION, "active": "=false"}, foreign=404)
    walk.row("DELETE", lambda: "/automations/" + walk.made("/automations", automation), SECRET, None, 200, DELETED, foreign=404)

    campaign = {"name": "Spring", "channel": "EMAIL", "segmentId": segment_id, "templateId": template_id,
                "scheduledAt": "2099-01-31T08:15:30Z"}
    walk.row("POST", "/campaigns", SECRET, campaign, 201, CAMPAIGN, foreign=422)
    walk.row("GET", "/campaigns", SECRET, None, 200, {"campaigns": [CAMPAIGN]})
    path = "/campaigns/" + walk.made("/campaigns", campaign)
    walk.row("PUT", path, SECRET, {"name": "Summer"}, 200, {**CAMPAIGN, "name": "=Summer"}, foreign=404)
    walk.row("DELETE", lambda: "/campaigns/" + walk.made("/campaigns", campaign), SECRET, None, 200, DELETED, foreign=404)

    news = {"title": "New", "body": "All of it", "published": True}
    walk.row("POST", "/news", SECRET, news, 201, NEWS)
    walk.row("GET", "/news", SECRET, None, 200, {"items": [NEWS]})
    path = "/news/" + walk.made("/news", news)
    walk.row("PUT", path, SECRET, {"title": "Newer"}, 200, {**NEWS, "title": "=Newer"}, foreign=404)
    walk.row("DELETE", lambda: "/news/" + walk.made("/news", news), SECRET, None, 200, DELETED, foreign=404)


def sending(walk):
    queued = {"id": STRING, "status": STRING}
    mail = {"userId": "ada", "channel": "EMAIL", "subject": "Hello", "body": "<p>Hello</p>"}
    walk.row("POST", "/messages", SECRET, mail, 202, queued)
    walk.row("POST", "/messages", SECRET, {"user_id": "ada", "channel": "push", "content": {"title": "Hi", "body": "There"}}, 202, queued)
    until(lambda: walk.admin.send("GET", "/messages?userId=ada&channel=EMAIL").json()["total"] >= 4)
    # Another project has a list of its own.
    walk.row("GET", "/messages?userId=ada&channel=EMAIL&page=1&limit=20", SECRET, None, 200, {"messages": [MESSAGE], "total": NUMBER})
    # The operator has configured no model. Callers without access are rejected nevertheless.
    walk.row("POST", "/ai/generate", SECRET, {"channel": "PUSH", "context": "A sale", "tone": "friendly"}, 503, None)

    walk.row("GET", "/channels", SECRET, None, 200, {"email": {"provider": STRING, "configured": "=true"}, "push": {"configured": BOOLEAN}})
    ios = {"iosPushKeyId": "ABCDE12345", "iosPushTeamId": "TEAM123456", "iosPushBundleId": "org.example.app", "iosPushEnvironment": "production"}
    walk.row("PUT", "/channels", SECRET_OR_ADMIN, {**ios, "pushGatewayServerKey": "key"}, 200, {"updated": "=true"})

    token = {"user_id": "ada", "token": "f" * 64, "platform": "IOS"}
    walk.row("POST", "/push-tokens", PUBLIC, token, 202, {"success": "=true"})
    walk.row("DELETE", "/push-tokens", PUBLIC, {"token": token["token"]}, 202, {"success": "=true"})
    settings = {"success": "=true", "data": {"vapid_public_key": STRING, "push_configured": BOOLEAN}}
    walk.row("GET", "/push-tokens", PUBLIC, None, 200, settings)

    delivery_event = {"event": "message.delivered", "data": {"messageId": str(uuid.uuid4()), "userId": "ada"}}
    walk.rows += 1
    walk.check("signed: POST /webhook", walk.signed(delivery_event), {202}, {"received": "=true"})
    for who, caller in walk.callers.items():
        walk.check(f"{who}: POST /webhook unsigned", caller.send("POST", f"/webhook/{walk.project}", delivery_event), {401}, None)


def managing(walk):
    made = {**KEY, "key": STRING}
    walk.row("POST", "/api-keys", ADMIN, {"name": "backend", "type": "secret"}, 201, {**made, "type": "=secret"})
    walk.row("GET", "/api-keys", ADMIN, None, 200, {"keys": [KEY]})
    walk.row("DELETE", "/api-keys", ADMIN, lambda: {"id": walk.made("/api-keys", {"name": "old"})}, 200, DELETED)
    walk.row("GET", "/team", MEMBER, None, 200, {"members": [{"id": STRING, "email": STRING, "role": STRING}]})
    invited = {"invite": {"id": STRING, "email": STRING, "status": "=PENDING"}}
    walk.row("POST", "/team/invites", ADMIN, lambda: {"email": f"{next(walk.fresh)}@example.com", "role": "MEMBER"}, 201, invited)
    report = {"range": "=30d", "events": NUMBER, "activeUsers": NUMBER, "messagesSent": NUMBER}
    walk.row("GET", "/reports?range=30d&metrics=events,users,messages", SECRET, None, 200, report)
    for days in ("7d", "90d"):
        walk.row("GET", f"/reports?range={days}", SECRET, None, 200, {**report, "range": f"={days}"})


def until(holds):
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit("it did not come to that within 30 s")
        time.sleep(0.1)


def main(credentials):
    walk = Walk(credentials)
    for part in (events_and_users, content, sending, managing):
        part(walk)
    print("\n".join(walk.wrong) or f"    {walk.rows} rows of the specification in {walk.calls} calls: ok")
    return 1 if walk.wrong else 0


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text())))
