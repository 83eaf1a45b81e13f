"""Runs schemathesis against a started product as everybody who may call it; its argument is the product's credentials.json.

Fails when an answer is a 5xx or is not as openapi.yaml says, and when input that the document forbids is taken."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from string import Template

from client import log_in

HERE = Path(__file__).parent
CREDENTIALS = Path(sys.argv[1])
CONFIGURATION = CREDENTIALS.with_name("schemathesis.toml")
DOCUMENT = HERE.parent.parent / "openapi.yaml"
# What only a session may do.
SESSIONS = ["Sessions", "Projects", "API keys", "Team"]


def main(credentials):
    base, project = credentials["baseUrl"], credentials["projectId"]
    admin = log_in(base, credentials["adminEmail"], credentials["adminPassword"], project)
    # A project for the session to play with; neither is limited.
    playground = admin.made("/projects", {"name": "Playground"})["id"]
    for each in (project, playground):
        admin.send("PUT", f"/projects/{each}", {"rateLimit": 1_000_000}).raise_for_status()
    configure({
        "WEBHOOK_PROJECT": project,
        "SEGMENT": admin.made("/segments", {"name": "Everybody", "rules": []})["id"],
        "TEMPLATE": admin.made("/templates", {"name": "Hello", "channel": "EMAIL", "subject": "Hello", "body": "Hello"})["id"],
    })
    os.environ["WEBHOOK_SECRET"] = credentials["webhookSecret"]
    os.environ["SCHEMATHESIS_HOOKS"] = str(HERE / "hooks.py")
    by_key = [f"--exclude-tag={tag}" for tag in SESSIONS]
    # Concurrently: each waits for the product part of the time.
    runs = {
        "secret key": start(base, {"x-api-key": credentials["secretKey"]}, by_key),
        "public key": start(base, {"x-api-key": credentials["publicKey"]}, [*by_key, "--phases=coverage"]),
        # But for what would end it.
        "session": start(base, admin.headers | {"X-Project-Id": playground}, ["--exclude-operation-id=logOut"]),
    }
    passed = {who: finish(who, process) for who, process in runs.items()}
    for who, is_ok in passed.items():
        print(f"    {who:20} {'ok' if is_ok else 'FAILED'}")
    return 0 if all(passed.values()) else 1


def configure(values):
    text = (HERE / "schemathesis.toml").read_text()
    CONFIGURATION.write_text(Template(text).substitute(values))


def start(base, headers, options):
    command = [
        Path(sys.executable).with_name("schemathesis"),
        f"--config-file={CONFIGURATION}",
        "run",
        DOCUMENT,
        f"--url={base}",
        *(f"--header={name}:{value}" for name, value in headers.items()),
        *options,
    ]
    # Into a file: a pipe without a reader would fill up.
    output = tempfile.TemporaryFile(mode="w+")
    process = subprocess.Popen(command, cwd=CONFIGURATION.parent, stdout=output, stderr=subprocess.STDOUT)
    return process, output


def finish(who, started):
    process, output = started
    status = process.wait()
    output.seek(0)
    print(f"\n{who}:\n{output.read()}", flush=True)
    return status == 0


if __name__ == "__main__":
    sys.exit(main(json.loads(CREDENTIALS.read_text())))
