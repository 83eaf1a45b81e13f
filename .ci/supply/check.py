"""Holds what is fetched from registries against its rules: packages for npm, pip and the images. Usage: check.py ROOT

Crates are cargo-deny's (deny.toml).
"""

import json
import re
import subprocess
import sys
from pathlib import Path

# `npm:` gives a package another name, `file:` is of this repository, `$name` another line of the same manifest.
EXACT = re.compile(r"^((?:npm:[^ ]+@)?\d+\.\d+\.\d+([-+].+)?|file:\.\./.+|\$.+)$")
INTEGRITY = re.compile(r"^sha512-[A-Za-z0-9+/]{86}==$")
HASHED = re.compile(r"^[A-Za-z0-9._-]+==[^ ;]+( --hash=sha256:[0-9a-f]{64})+$")
NPM = re.compile(r"\bnpm(\W+)(install|ci|i|add|update)\b(?![-=])")
NPX = re.compile(r"\b(npx|npm exec)\b")
PIP = re.compile(r"\bpip[0-9]?\"? install\b")
IMAGE = re.compile(r"^\s*(?:ARG \w+_IMAGE=|FROM |image: )(?:\$\{\w+:-([^}]+)\}(?!\S)|(\S+))", re.M)


def main(root):
    tracked = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    files = {name: (root / name) for name in tracked.split("\0") if name and (root / name).is_file()}
    problems, count = [], 0
    for name, path in sorted(files.items()):
        if (found := of_file(name, path)) is not None:
            count += 1
            problems += [f"{name}: {problem}" for problem in found]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{count} files that fetch or say what is fetched: {len(problems) or 'no'} problems")
    return 1 if problems else 0


def of_file(name, path):
    """What is wrong in a file; none if it fetches nothing and says nothing about it."""
    last = path.name
    if last == "package-lock.json":
        return list(of_npm_lock(json.loads(path.read_text())))
    if last == "package.json":
        return list(of_npm_manifest(json.loads(path.read_text()))) + list(of_npm_settings(path))
    if last.endswith("requirements.txt"):
        return list(of_requirements(path.read_text()))
    if last.startswith("Dockerfile") or last.startswith("docker-compose"):
        text = path.read_text()
        return list(of_images(text)) + list(of_script(text))
    is_script = name.startswith(".ci/") and path.suffix in ("", ".sh") or last == "Makefile" or path.suffix == ".mjs"
    if is_script:
        return list(of_script(path.read_text()))
    return None


def of_npm_lock(lock):
    for path, package in lock["packages"].items():
        # The workspace's own packages, and links to them.
        if package.get("link") or "node_modules/" not in path:
            continue
        if not INTEGRITY.match(package.get("integrity", "")):
            yield f"{path} has no SHA-512"
        if "resolved" in package:
            yield f"{path} is from a place of its own, {package['resolved']}"


def of_npm_manifest(manifest):
    # What peers a package goes with, and which engines, are ranges.
    for kind in ("dependencies", "devDependencies", "optionalDependencies"):
        for package, version in manifest.get(kind, {}).items():
            if not EXACT.match(version):
                yield f"{package} is {version}, which may become another one"


def of_npm_settings(manifest):
    """The settings that npm reads: those next to the manifest, or of the workspace that it belongs to."""
    for place in (manifest.parent, manifest.parent.parent.parent):
        if (place / ".npmrc").exists() and "ignore-scripts=true" in (place / ".npmrc").read_text().split():
            return
    yield "no .npmrc says ignore-scripts=true"


def of_requirements(text):
    lines = text.replace(" \\\n", "").replace("    --hash", " --hash").splitlines()
    for line in lines:
        if not HASHED.match(line):
            yield f"{line.split(' ')[0]} has no version or no SHA-256"


def of_script(text):
    for line in text.splitlines():
        if line.lstrip().startswith(("#", "//")):
            continue
        if NPX.search(line) and "--no-install" not in line:
            yield f"fetches and runs at once: {line.strip()}"
        if is_npm_install(line) and "--ignore-scripts" not in line:
            yield f"runs what packages bring: {line.strip()}"
        if PIP.search(line) and not {"--require-hashes", "--only-binary"} <= set(line.split()):
            yield f"takes what it finds: {line.strip()}"


def is_npm_install(line):
    found = NPM.search(line)
    # `npm install` of a shell, and `npm('install'` of a script: not `npm, install` of a sentence.
    return found is not None and re.fullmatch(r"\s+|\(['\"]", found[1]) is not None


def of_images(text):
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", text, re.M))
    for found in IMAGE.finditer(text):
        image = found[1] or found[2]
        if image in stages or image.startswith("${"):
            continue
        tag = image.rpartition(":")[2] if ":" in image else ""
        if tag in ("", "latest"):
            yield f"{image} has no tag of its own"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
