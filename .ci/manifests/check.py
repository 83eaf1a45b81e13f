"""Holds what deploy/kubernetes renders to against Kubernetes' schemas, the programs, and itself. Usage: check.py DIRECTORY"""

import json
import sys
from pathlib import Path

import jsonschema
import kubernetes_validate

import consistency
from render import render

# The oldest and the newest that are claimed in docs/operate/kubernetes.md.
VERSIONS = ("1.31", "1.37")


def main(directory):
    problems, seen, count = [], set(), 0
    overlays = sorted(path for path in (directory / "overlays").iterdir() if path.is_dir())
    for overlay in overlays:
        objects = render(overlay, seen)
        count += len(objects)
        found = [problem for item in objects for problem in of_schema(item)] + consistency.problems(objects)
        problems += [f"{overlay.name}: {problem}" for problem in found]
    here = {path.resolve() for path in directory.rglob("*.yaml")}
    problems += [f"{path}: no overlay leads to it" for path in sorted(here - seen)]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{count} objects of {len(overlays)} overlays: {len(problems) or 'no'} problems")
    return 1 if problems else 0


def of_schema(item):
    name = f"{item['kind']} {item['metadata']['name']}"
    if item["apiVersion"].startswith("keda.sh/"):
        schema = json.loads((Path(__file__).parent / "scaled_object.schema.json").read_text())
        errors = jsonschema.Draft202012Validator(schema).iter_errors(item)
        return [f"{name}: {error.json_path}: {error.message}" for error in errors]
    found = []
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(item, version, strict=True)
        except (jsonschema.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            path = ".".join(str(part) for part in getattr(error, "path", []))
            found.append(f"{name}: {path}: {error.message} (Kubernetes {version})")
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
