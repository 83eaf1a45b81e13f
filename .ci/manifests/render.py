"""Renders a Kustomize directory, as far as this project uses Kustomize: whatever else a file says is refused.

Kustomize itself is what installs; this stands in for it where it cannot be fetched, so that what it would make can be checked.
"""

import copy
import hashlib
import json
import re
from pathlib import Path

import yaml

FIELDS = {"apiVersion", "kind", "resources", "labels", "configMapGenerator", "images", "patches", "namespace", "nameSuffix", "replicas"}
PODS = {"Deployment", "StatefulSet", "Job"}
CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding"}


class RenderError(Exception):
    pass


def render(directory, seen=None):
    """All objects of a directory, as they would be applied. `seen`: a set to which every file read is added."""
    objects = build(Path(directory).resolve(), set() if seen is None else seen)
    hashed = {}
    for item in objects:
        if item.pop("generated", False):
            content = hashlib.sha256(json.dumps(item["data"], sort_keys=True).encode()).hexdigest()[:10]
            hashed[item["metadata"]["name"]] = f"{item['metadata']['name']}-{content}"
            item["metadata"]["name"] = hashed[item["metadata"]["name"]]
    for item in objects:
        for reference in config_map_references(item):
            reference["name"] = hashed.get(reference["name"], reference["name"])
    return objects


def build(directory, seen):
    path = directory / "kustomization.yaml"
    seen.add(path)
    rules = yaml.safe_load(path.read_text())
    if unknown := set(rules) - FIELDS:
        raise RenderError(f"{path}: {sorted(unknown)} is more than is rendered here")
    objects = []
    for name in rules.get("resources", []):
        place = (directory / name).resolve()
        if place.is_dir():
            objects += build(place, seen)
        else:
            seen.add(place)
            objects += [item for item in yaml.safe_load_all(place.read_text()) if item]
    for generator in rules.get("configMapGenerator", []):
        generate(directory, generator, objects, seen)
    for patch in rules.get("patches", []):
        apply_patch(path, patch, objects)
    for image in rules.get("images", []):
        tag(image, objects)
    for label in rules.get("labels", []):
        for item in objects:
            add_labels(item, label)
    suffix = rules.get("nameSuffix", "")
    for item in objects:
        item["metadata"]["name"] += suffix
        if "namespace" in rules and item["kind"] not in CLUSTER_WIDE:
            item["metadata"]["namespace"] = rules["namespace"]
    for replicas in rules.get("replicas", []):
        found = [item for item in objects if item["kind"] in PODS and item["metadata"]["name"] == replicas["name"]]
        if not found:
            raise RenderError(f"{path}: nothing is called {replicas['name']}")
        found[0]["spec"]["replicas"] = replicas["count"]
    return objects


def generate(directory, generator, objects, seen):
    data = {}
    for literal in generator.get("literals", []):
        name, _, value = literal.partition("=")
        data[name] = value
    for name in generator.get("files", []):
        seen.add(directory / name)
        data[name] = (directory / name).read_text()
    if generator.get("behavior") == "merge":
        merged = [item for item in objects if item["kind"] == "ConfigMap" and item["metadata"]["name"] == generator["name"]]
        if not merged:
            raise RenderError(f"{directory}: no ConfigMap {generator['name']} to merge into")
        merged[0]["data"].update(data)
        return
    metadata = {"name": generator["name"]}
    objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data, "generated": True})


def apply_patch(path, patch, objects):
    target = patch["target"]
    name = re.compile(f"^(?:{target['name']})$")
    found = [item for item in objects if item["kind"] == target["kind"] and name.match(item["metadata"]["name"])]
    if not found:
        raise RenderError(f"{path}: a patch meets nothing: {target}")
    for item in found:
        for change in yaml.safe_load(patch["patch"]):
            change_one(path, item, change)


def change_one(path, item, change):
    """One operation of JSON Patch (RFC 6902)."""
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in change["path"].lstrip("/").split("/")]
    at = item
    for part in way:
        at = at[int(part)] if isinstance(at, list) else at[part]
    if change["op"] == "add" and isinstance(at, list) and last == "-":
        at.append(copy.deepcopy(change["value"]))
    elif change["op"] == "add" and isinstance(at, dict):
        at[last] = copy.deepcopy(change["value"])
    elif change["op"] == "remove" and isinstance(at, dict) and last in at:
        del at[last]
    else:
        raise RenderError(f"{path}: cannot {change['op']} {change['path']} in {item['metadata']['name']}")


def tag(image, objects):
    for container in (container for item in objects for container in containers(item)):
        if container["image"].partition(":")[0] == image["name"]:
            container["image"] = f"{image.get('newName', image['name'])}:{image['newTag']}"


def add_labels(item, label):
    pairs = label["pairs"]
    item["metadata"].setdefault("labels", {}).update(pairs)
    selecting = label.get("includeSelectors", False)
    if item["kind"] in PODS and (selecting or label.get("includeTemplates", False)):
        item["spec"]["template"]["metadata"].setdefault("labels", {}).update(pairs)
    if not selecting:
        return
    if item["kind"] in {"Deployment", "StatefulSet", "PodDisruptionBudget"}:
        item["spec"]["selector"]["matchLabels"].update(pairs)
    if item["kind"] in PODS:
        for spread in pod(item).get("topologySpreadConstraints", []):
            spread["labelSelector"]["matchLabels"].update(pairs)


def pod(item):
    """The pod that a workload makes; empty for everything else."""
    return item["spec"]["template"]["spec"] if item["kind"] in PODS else {}


def containers(item):
    return pod(item).get("containers", [])


def config_map_references(item):
    for container in containers(item):
        yield from (source["configMapRef"] for source in container.get("envFrom", []) if "configMapRef" in source)
        for variable in container.get("env", []):
            if "configMapKeyRef" in variable.get("valueFrom", {}):
                yield variable["valueFrom"]["configMapKeyRef"]
    yield from (volume["configMap"] for volume in pod(item).get("volumes", []) if "configMap" in volume)
