"""Whether objects fit together, and the programs that they start."""

import re
from pathlib import Path

from render import PODS, config_map_references, containers, pod

ROOT = Path(__file__).resolve().parents[2]
# How long a program takes to stop at most (`GRACE` of shared/kernel/src/shutdown.rs), in seconds.
GRACE = 28
NAME, SECRET = "app.kubernetes.io/name", "rekindle"


def problems(objects):
    workloads = [item for item in objects if item["kind"] in PODS]
    found = twice(objects)
    for item in workloads:
        found += [f"{item['metadata']['name']}: {problem}" for problem in of_workload(item, objects)]
    for item in objects:
        found += [f"{item['kind']} {item['metadata']['name']}: {problem}" for problem in of_links(item, workloads)]
    return found


def twice(objects):
    keys = [(item["kind"], item["metadata"]["name"]) for item in objects]
    return [f"{key} is there twice" for key in sorted(set(keys)) if keys.count(key) > 1]


# What a workload says.


def of_workload(item, objects):
    yield from security(item)
    names = {other["metadata"]["name"] for other in objects if other["kind"] == "ConfigMap"}
    yield from (f"there is no ConfigMap {ref['name']}" for ref in config_map_references(item) if ref["name"] not in names)
    for container in containers(item):
        variables = environment(container, objects)
        if container["image"].startswith("nats"):
            yield from of_nats(container, variables)
        else:
            yield from of_program(item, container, variables)
        yield from probes(container)
        resources = container.get("resources", {})
        if set(resources.get("requests", {})) != {"cpu", "memory"} or "memory" not in resources.get("limits", {}):
            yield "requests of cpu and memory, and a limit of memory are needed"
        sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        if item["kind"] != "Job" and pod(item)["terminationGracePeriodSeconds"] < sleep + GRACE:
            yield "is killed before it has drained"
    labels = item["spec"]["template"]["metadata"]["labels"]
    for spread in pod(item).get("topologySpreadConstraints", []):
        if not matches(spread["labelSelector"], labels):
            yield "is spread by labels that it does not have"


def security(item):
    context = pod(item).get("securityContext", {})
    if not context.get("runAsNonRoot") or not context.get("runAsUser"):
        yield "may run as root"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "has no seccomp profile"
    if pod(item).get("automountServiceAccountToken") is not False or pod(item).get("enableServiceLinks") is not False:
        yield "is given a token or links that it does not need"
    wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    yield from (f"{c['name']} has a lax securityContext" for c in containers(item) if c.get("securityContext") != wanted)


def environment(container, objects):
    """Every variable by name: its value, or where its value comes from."""
    maps = {item["metadata"]["name"]: item["data"] for item in objects if item["kind"] == "ConfigMap"}
    variables = {}
    for source in container.get("envFrom", []):
        variables.update(maps.get(source["configMapRef"]["name"], {}))
    for variable in container.get("env", []):
        variables[variable["name"]] = variable.get("value", variable.get("valueFrom"))
    return variables


def known_variables():
    """What the programs read: the doctor's list, which a test of its own holds against their sources."""
    text = (ROOT / "cli/src/doctor/variables.rs").read_text()
    return set(re.findall(r'^    \(\s*"([A-Z_]+)",\s', text, re.MULTILINE))


def secret_keys():
    """The keys of the Secret, by docs/operate/kubernetes.md."""
    return set(re.findall(r"^ *\| `([A-Z_]+)` \|", (ROOT / "docs/operate/kubernetes.md").read_text(), re.MULTILINE))


def of_program(item, container, variables):
    yield from (f"no program reads {name}" for name in sorted(set(variables) - known_variables()))
    needed = {"DATABASE_URL"}
    if item["kind"] != "Job":
        needed |= {"NATS_URL", "ADMIN_ADDR"}
        needed |= set() if container["name"] == "scheduler" else {"MASTER_KEY"}
    yield from (f"{name} is missing" for name in sorted(needed - set(variables)))
    yield from secrets(variables)
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
    for name, variable in (("admin", "ADMIN_ADDR"), ("http", "GATEWAY_ADDR")):
        if variable in variables and variables[variable] != f"0.0.0.0:{ports.get(name)}":
            yield f"{variable} is {variables[variable]}, and the port {name} {ports.get(name)}"


def secrets(variables):
    for name, source in variables.items():
        reference = source.get("secretKeyRef") if isinstance(source, dict) else None
        if reference and (reference["name"] != SECRET or reference["key"] not in secret_keys()):
            yield f"{name}: docs/operate/kubernetes.md does not name {reference['key']} of the Secret {SECRET}"


def of_nats(container, variables):
    """Everything that its files read is there, and nothing else."""
    name = Path(container["args"][1]).name
    read = {word for line in nats_lines(name) for word in re.findall(r"\$(NATS_[A-Z_]+)", line)}
    yield from (f"{missing} of {name} is missing" for missing in sorted(read - set(variables)))
    yield from (f"{name} does not read {extra}" for extra in sorted(set(variables) - read))
    yield from secrets(variables)


def nats_lines(file):
    """What a configuration of the server says, with what it includes and without comments."""
    for line in (ROOT / "deploy/nats" / file).read_text().splitlines():
        if included := re.match(r"include \./(\S+)", line):
            yield from nats_lines(included[1])
        elif not line.lstrip().startswith("#"):
            yield line


def probes(container):
    ports = {port["name"] for port in container.get("ports", [])}
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container.get(kind)
        if probe and probe["httpGet"]["port"] not in ports:
            yield f"{kind} asks a port that is not there"


# What leads from one object to another.


def matches(selector, labels):
    if any(labels.get(name) != value for name, value in selector.get("matchLabels", {}).items()):
        return False
    expressions = selector.get("matchExpressions", [])
    return all(labels.get(e["key"]) in e["values"] for e in expressions if e["operator"] == "In")


def selected(selector, workloads):
    return [item for item in workloads if matches(selector, item["spec"]["template"]["metadata"]["labels"])]


def of_links(item, workloads):
    spec = item.get("spec", {})
    match item["kind"]:
        case "Service":
            pods = selected({"matchLabels": spec["selector"]}, workloads)
            for port in spec["ports"]:
                target = port.get("targetPort", port["port"])
                if not any(has_port(one, target) for one in pods):
                    yield f"no container listens on {target}"
        case "PodDisruptionBudget":
            if len(selected(spec["selector"], workloads)) != 1:
                yield "is to keep one workload, and selects another number"
        case "Deployment" | "StatefulSet":
            if item not in selected(spec["selector"], workloads) or len(selected(spec["selector"], workloads)) != 1:
                yield "does not select just its own pods"
        case "HorizontalPodAutoscaler" | "ScaledObject":
            target = spec["scaleTargetRef"]["name"]
            found = [one for one in workloads if one["metadata"]["name"] == target and one["kind"] == "Deployment"]
            if not found or "replicas" in found[0]["spec"]:
                yield f"{target} is not there, or says itself how many it is"
            elif item["kind"] == "ScaledObject":
                yield from of_lag(item, found[0])
        case "NetworkPolicy":
            yield from of_policy(spec, workloads)


def has_port(item, port):
    return any(port in (one["name"], one["containerPort"]) for c in containers(item) for one in c.get("ports", []))


# What a ScaledObject asks PostgreSQL of a channel: the messages that are due (shared/store-sending/src/send_chunks/ready.rs).
DUE = "SELECT coalesce(sum(size), 0) FROM send_chunk WHERE due_at <= now() AND channel IN ('{}')"


def of_lag(item, target):
    """The consumers (shared/bus/src/subject.rs) and channels are those that the target reads."""
    triggers = {kind: [one["metadata"] for one in item["spec"]["triggers"] if one["type"] == kind] for kind in ("nats-jetstream", "postgresql")}
    variables = {v["name"]: v for c in containers(target) for v in c["env"]}
    channels = variables.get("DELIVERY_CHANNELS", {}).get("value", "").split(",")
    if channels == [""]:
        consumers, queries = {("INGEST", f"ingest-{partition}") for partition in range(8)}, []
    else:
        consumers, queries = {("SEND", f"send-{channel}-direct") for channel in channels}, [DUE.format("', '".join(channel.upper() for channel in channels))]
    if {(trigger["stream"], trigger["consumer"]) for trigger in triggers["nats-jetstream"]} != consumers:
        yield "does not look at just the consumers of what it scales"
    if [trigger["query"] for trigger in triggers["postgresql"]] != queries:
        yield "does not count just the due messages of the channels that it scales"
    for trigger in triggers["postgresql"]:
        if trigger["connectionFromEnv"] != "DATABASE_URL" or "DATABASE_URL" not in variables:
            yield f"{trigger['connectionFromEnv']} is not the database of what it scales"


def of_policy(spec, workloads):
    pods = selected(spec["podSelector"], workloads)
    if not pods:
        yield "selects nothing"
    for rule in spec.get("ingress", []):
        for port in rule.get("ports", []):
            if not any(has_port(one, port["port"]) for one in pods):
                yield f"lets in to {port['port']}, where no container listens"
    for rule in spec.get("ingress", []) + spec.get("egress", []):
        for peer in rule.get("from", []) + rule.get("to", []):
            if "podSelector" in peer and not selected(peer["podSelector"], workloads):
                yield f"names {peer['podSelector']}, which matches no pod"
