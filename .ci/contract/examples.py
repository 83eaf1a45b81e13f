"""Checks the examples in openapi.yaml: every JSON request body and every JSON response with a 2xx status has one, and each
example is valid against its schema, including formats."""

import json
import sys
from pathlib import Path

import jsonschema_rs
import yaml

DOCUMENT = Path(__file__).parent.parent.parent / "openapi.yaml"
METHODS = ("get", "put", "post", "delete", "patch")


def main():
    # An unquoted time becomes a date object in YAML 1.1; as text it fails its format and is reported.
    document = json.loads(json.dumps(yaml.safe_load(DOCUMENT.read_text()), default=str))
    checked, problems = 0, []
    for name, media in bodies(document):
        values = examples(media)
        if not values:
            problems.append(f"{name}: no example")
        for value in values:
            checked += 1
            problems += (f"{name}: {problem}" for problem in violations(document, media["schema"], value))
    print(*problems, f"{checked} examples, {len(problems)} problems", sep="\n")
    return 1 if problems or not checked else 0


def bodies(document):
    """Yields the name and media type object of each JSON request body and each JSON response with a 2xx status."""
    for path, item in document["paths"].items():
        for method in METHODS:
            operation = item.get(method)
            if operation is None:
                continue
            responses = {status: given for status, given in operation["responses"].items() if status.startswith("2")}
            for part, given in {"request": operation.get("requestBody", {}), **responses}.items():
                content = resolved(document, given).get("content", {})
                if "application/json" in content:
                    yield f"{method.upper()} {path}, {part}", content["application/json"]


def resolved(document, part):
    """Follows the reference to another part of the document, if the part is one."""
    while "$ref" in part:
        target = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        part = target
    return part


def examples(media):
    if "example" in media:
        return [media["example"]]
    return [example["value"] for example in media.get("examples", {}).values()]


def violations(document, schema, value):
    # References point into `components`, so the schema needs it next to itself.
    whole = {**schema, "components": document["components"]}
    for error in jsonschema_rs.Draft202012Validator(whole, validate_formats=True).iter_errors(value):
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        yield f"{where.removeprefix('.') or 'body'}: {error.message}"


if __name__ == "__main__":
    sys.exit(main())
