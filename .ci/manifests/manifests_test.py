"""That the checks find what they are for: each changes one thing of a rendered overlay."""

import copy
import re
import unittest
from pathlib import Path

import yaml

import consistency
from check import of_schema
from render import containers, pod, render

ROOT = Path(__file__).resolve().parents[2]
OVERLAYS = ROOT / "deploy/kubernetes/overlays"


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.objects = render(OVERLAYS / "production")

    def finds(self, kind, name, change, expected):
        objects = copy.deepcopy(self.objects)
        [item] = [item for item in objects if item["kind"] == kind and item["metadata"]["name"] == name]
        change(item)
        found = " / ".join(of_schema(item) + consistency.problems(objects))
        self.assertIn(expected, found)

    def test_a_rendered_overlay_is_sound(self):
        self.assertEqual(consistency.problems(self.objects), [])

    def test_a_name_that_kubernetes_does_not_know(self):
        self.finds("Deployment", "gateway", lambda item: item["spec"].update(replica=2), "replica")

    def test_a_variable_that_no_program_reads(self):
        change = lambda item: containers(item)[0]["env"].append({"name": "GATEWAY_ADRR", "value": "x"})
        self.finds("Deployment", "gateway", change, "no program reads GATEWAY_ADRR")

    def test_a_probe_of_no_port(self):
        change = lambda item: containers(item)[0]["livenessProbe"]["httpGet"].update(port="metrics")
        self.finds("Deployment", "scheduler", change, "a port that is not there")

    def test_a_root_user(self):
        self.finds("Deployment", "worker-automation", lambda item: pod(item).pop("securityContext"), "may run as root")

    def test_an_autoscaler_of_nothing(self):
        change = lambda item: item["spec"]["scaleTargetRef"].update(name="worker")
        self.finds("ScaledObject", "worker-delivery-push", change, "worker is not there")

    def test_a_lag_of_another_consumer(self):
        change = lambda item: item["spec"]["triggers"][0]["metadata"].update(consumer="ingest-9")
        self.finds("ScaledObject", "worker-automation", change, "does not look at just the consumers")

    def test_a_query_for_another_channel_is_reported(self):
        query = consistency.DUE.format("EMAIL")
        change = lambda item: item["spec"]["triggers"][1]["metadata"].update(query=query)
        self.finds("ScaledObject", "worker-delivery-sms", change, "does not count just the due messages")

    def test_a_connection_other_than_the_pods_is_reported(self):
        change = lambda item: item["spec"]["triggers"][1]["metadata"].update(connectionFromEnv="POSTGRES_URL")
        self.finds("ScaledObject", "worker-delivery-push", change, "POSTGRES_URL is not the database")

    def test_an_unknown_field_of_the_postgresql_scaler_is_reported(self):
        change = lambda item: item["spec"]["triggers"][1]["metadata"].update(target="5")
        self.finds("ScaledObject", "worker-delivery-email", change, "$.spec.triggers[1]")

    def test_a_password_that_the_server_is_not_given(self):
        change = lambda item: containers(item)[0]["env"].pop()
        self.finds("StatefulSet", "nats", change, "NATS_ROUTE_PASSWORD")

    def test_each_channel_has_a_deployment_of_its_own(self):
        names = {item["metadata"]["name"] for item in self.objects if item["kind"] == "Deployment"}
        self.assertLessEqual({f"worker-delivery-{channel}" for channel in ("email", "push", "sms", "in-app")}, names)

    def test_a_generated_map_is_referred_to_by_its_hash(self):
        [gateway] = [item for item in self.objects if item["kind"] == "Deployment" and item["metadata"]["name"] == "gateway"]
        reference = containers(gateway)[0]["envFrom"][0]["configMapRef"]["name"]
        [found] = [item for item in self.objects if item["kind"] == "ConfigMap" and item["metadata"]["name"] == reference]
        self.assertEqual(found["data"]["STREAM_REPLICAS"], "3")


class Compose(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
        cls.settings = {name: set(service.get("environment", {})) for name, service in services.items()}

    def test_setup_has_the_settings_of_all_programs_for_doctor_to_check(self):
        for program in ("gateway", "worker-automation", "worker-delivery", "scheduler"):
            self.assertEqual(self.settings[program] - self.settings["setup"], set(), program)

    def test_settings_of_the_operators_guide_reach_a_program(self):
        guide = "".join((ROOT / page).read_text() for page in ("docs/operate/deploy.md", "deploy/README.md", "docs/operate/provider-limits.md"))
        named = set(re.findall(r"`([A-Z][A-Z_]+)(?:=[^`]*)?`", guide)) & consistency.known_variables()
        # Set by the programs' own files: servers elsewhere, and the local `rekindle up`.
        elsewhere = {"NATS_CA_FILE", "REDIS_CA_FILE", "STREAM_REPLICAS", "OUTBOUND_CA_FILE"}
        self.assertEqual(named - self.settings["setup"] - elsewhere, set())


if __name__ == "__main__":
    unittest.main()
