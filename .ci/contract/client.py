"""A client of the API, and the paths that a browser's session may call."""

import requests


class Caller:
    """`headers` say who it is."""

    def __init__(self, base, headers):
        self.base, self.headers = base, headers

    def send(self, method, path, body=None, headers=None):
        headers = self.headers | (headers or {})
        return requests.request(method, self.base + path, json=body, headers=headers, timeout=40)

    def made(self, path, body):
        """What was made there."""
        answer = self.send("POST", path, body)
        if answer.status_code not in (200, 201, 202):
            raise SystemExit(f"POST {path}: {answer.status_code} {answer.text}")
        return answer.json()


def session_of(base, answer, project):
    """A new session, in a project."""
    return Caller(base, {
        "Cookie": f"session={answer.cookies['session']}",
        "X-CSRF-Token": answer.json()["csrfToken"],
        "X-Project-Id": project,
    })


def log_in(base, email, password, project):
    answer = requests.post(f"{base}/auth/login", json={"email": email, "password": password}, timeout=40)
    answer.raise_for_status()
    return session_of(base, answer, project)
