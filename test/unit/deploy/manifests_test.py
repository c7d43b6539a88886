"""The manifests of scripts/deploy/kubernetes pass scripts/deploy/check-manifests, and typical mistakes in them do not."""
import copy
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import unittest

try:
    import jsonschema  # noqa: F401
    import yaml
except ImportError as error:
    print("skipped: %s is missing; apt-get install python3-yaml python3-jsonschema" % error.name)
    sys.exit(77)

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
DEPLOY = os.path.join(ROOT, "scripts", "deploy")


def load_checker():
    loader = importlib.machinery.SourceFileLoader("check_manifests", os.path.join(DEPLOY, "check-manifests"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_manifests", loader))
    loader.exec_module(module)
    return module


CHECKER = load_checker()


def load(name):
    with open(os.path.join(DEPLOY, "kubernetes", name)) as file:
        return list(yaml.safe_load_all(file))


class ManifestsTest(unittest.TestCase):
    def setUp(self):
        self.deployment, self.service, self.policy = load("service.yaml")
        self.pod, = load("training-pod.yaml")
        self.template = self.deployment["spec"]["template"]
        self.container = self.template["spec"]["containers"][0]
        self.installer = self.pod["spec"]["initContainers"][0]
        self.training = self.pod["spec"]["containers"][0]

    def mistakes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "all.yaml")
            with open(path, "w") as file:
                # A deep copy, so that YAML has no anchors.
                yaml.safe_dump_all(copy.deepcopy([self.deployment, self.service, self.policy, self.pod]), file)
            return CHECKER.mistakes([path])

    def assert_refused(self, *words):
        found = self.mistakes()
        self.assertTrue(any(all(word in line for word in words) for line in found), "%s is not in %s" % (words, found))

    def test_the_manifests_as_they_are_are_accepted(self):
        self.assertEqual(self.mistakes(), [])

    def test_the_job_that_tests_hardware_is_accepted_alone_and_its_port_is_looked_at(self):
        path = os.path.join(DEPLOY, "kubernetes", "validate.yaml")
        self.assertEqual(CHECKER.mistakes([path]), [])
        with open(path) as file, tempfile.TemporaryDirectory() as folder:
            text = file.read()
            wrong = os.path.join(folder, "wrong.yaml")
            for old, new, what in (("targetPort: meet", "targetPort: met", "targetPort met"), ("completions: 4", "completion: 4", "completion"),
                                   ("name: shm\n              mountPath", "name: shn\n              mountPath", "mounts shn")):
                self.assertIn(old, text)
                with open(wrong, "w") as out:
                    out.write(text.replace(old, new))
                self.assertTrue(any(what in line for line in CHECKER.mistakes([wrong])), what)

    def test_an_unknown_field_is_refused_and_named_with_its_place(self):
        self.container["readynessProbe"] = self.container.pop("readinessProbe")
        self.assert_refused("spec.template.spec.containers[0]", "readynessProbe")

    def test_a_field_at_the_wrong_level_is_refused(self):
        self.deployment["spec"]["containers"] = self.template["spec"]["containers"]
        self.assert_refused("spec", "containers")

    def test_a_wrong_type_is_refused(self):
        self.deployment["spec"]["replicas"] = "1"
        self.assert_refused("spec.replicas", "'1'")

    def test_a_port_that_is_text_is_refused(self):
        self.service["spec"]["ports"][0]["port"] = "5566"
        self.assert_refused("spec.ports[0].port")

    def test_an_environment_value_that_is_no_text_is_refused(self):
        self.training["env"].append({"name": "NCCL_PROBE_SAMPLE_US", "value": 500})
        self.assert_refused("spec.containers[0].env", "500")

    def test_a_missing_selector_is_refused(self):
        del self.deployment["spec"]["selector"]
        self.assert_refused("selector")

    def test_a_selector_that_does_not_match_its_template_is_refused(self):
        self.deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] = "other"
        self.assert_refused("Deployment ccld", "selector")

    def test_a_service_that_reaches_no_pod_is_refused(self):
        self.service["spec"]["selector"]["app.kubernetes.io/name"] = "other"
        self.assert_refused("Service ccld", "no pod")

    def test_a_target_port_that_nobody_has_is_refused(self):
        self.service["spec"]["ports"][0]["targetPort"] = "telemetrie"
        self.assert_refused("targetPort telemetrie")

    def test_a_probe_of_a_port_that_does_not_exist_is_refused(self):
        self.container["livenessProbe"]["httpGet"]["port"] = "https"
        self.assert_refused("livenessProbe", "https")

    def test_a_mount_of_no_volume_is_refused(self):
        self.pod["spec"]["volumes"] = [each for each in self.pod["spec"]["volumes"] if each["name"] != "shm"]
        self.assert_refused("train", "shm")

    def test_a_volume_of_a_secret_without_a_name_or_of_two_kinds_is_refused(self):
        secret = next(each for each in self.template["spec"]["volumes"] if each["name"] == "keys")
        secret["emptyDir"] = {}
        self.assert_refused("spec.template.spec.volumes")
        del secret["emptyDir"]
        del secret["secret"]["secretName"]
        self.assert_refused("spec.template.spec.volumes", "secretName")

    def test_the_service_knows_who_comes_in_and_the_training_pod_has_a_key(self):
        self.assertNotIn("--insecure", self.container["args"])
        mount = next(each for each in self.container["volumeMounts"] if each["name"] == "keys")
        for flag in ("--telemetry-secret-file", "--telemetry-allow-file", "--http-tokens-file"):
            path = self.container["args"][self.container["args"].index(flag) + 1]
            self.assertTrue(path.startswith(mount["mountPath"] + "/"), path)
        variables = {each["name"]: each.get("value") for each in self.training["env"]}
        mount = next(each for each in self.training["volumeMounts"] if each["name"] == "ccld-probe")
        for name in ("NCCL_PROBE_SERVER_KEY", "NCCL_PROBE_KEY_FILE"):
            self.assertTrue(variables[name].startswith(mount["mountPath"] + "/"), name)

    def set_endpoint(self, text):
        for variable in self.training["env"]:
            if variable["name"] == "NCCL_PROBE_ENDPOINT":
                variable["value"] = text

    def test_an_endpoint_that_is_not_the_service_is_refused(self):
        self.set_endpoint("tcp://ccld:5556")
        self.assert_refused("NCCL_PROBE_ENDPOINT")

    def test_each_of_several_endpoints_is_looked_at(self):
        other = copy.deepcopy(self.service)
        other["metadata"]["name"] = "ccld-b"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "other.yaml")
            with open(path, "w") as file:
                yaml.safe_dump_all(copy.deepcopy([self.deployment, self.service, other, self.pod]), file)
            self.assertEqual(CHECKER.mistakes([path]), [])
            self.set_endpoint("tcp://ccld:5566,tcp://ccld-b.training:5566")
            with open(path, "w") as file:
                yaml.safe_dump_all(copy.deepcopy([self.deployment, self.service, other, self.pod]), file)
            self.assertEqual(CHECKER.mistakes([path]), [])
        for wrong in ("tcp://ccld:5566,tcp://ccld-c:5566", "tcp://ccld:5566,", ",".join(["tcp://ccld:5566"] * 9)):
            self.set_endpoint(wrong)
            self.assert_refused("NCCL_PROBE_ENDPOINT=" + wrong)

    def test_a_container_that_may_write_to_its_root_is_refused(self):
        self.container["securityContext"]["readOnlyRootFilesystem"] = False
        self.assert_refused("readOnlyRootFilesystem")

    def test_a_container_that_keeps_capabilities_is_refused(self):
        del self.installer["securityContext"]["capabilities"]
        self.assert_refused("initContainers[0].securityContext", "capabilities")

    def test_a_container_without_requests_is_refused(self):
        self.container["resources"].pop("requests")
        self.assert_refused("resources", "requests")

    def test_another_kind_is_refused(self):
        self.pod["kind"] = "CronJob"
        self.assert_refused("CronJob")

    def test_what_is_no_yaml_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("kind: [Pod\n")
            file.flush()
            self.assertIn(file.name, CHECKER.mistakes([file.name])[0])

    def test_a_file_without_a_manifest_is_not_approved(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:  # as a command that failed leaves one
            with self.assertRaisesRegex(CHECKER.NothingThere, file.name):
                CHECKER.mistakes([file.name])

    def test_the_service_runs_as_the_user_and_on_the_ports_of_the_image(self):
        with open(os.path.join(ROOT, "scripts", "image", "Dockerfile")) as file:
            words = dict(line.rstrip("\n").split(" ", 1) for line in file if " " in line)
        security = self.template["spec"]["securityContext"]
        self.assertEqual(words["USER"], "%d:%d" % (security["runAsUser"], security["runAsGroup"]))
        self.assertEqual(words["EXPOSE"], " ".join("%d/tcp" % port["containerPort"] for port in self.container["ports"]))
        self.assertEqual(yaml.safe_load(words["CMD"]), self.container["args"])


class ClusterTest(unittest.TestCase):
    """cluster.yaml, beside a training pod that knows its nodes."""

    def setUp(self):
        self.nodes, self.names, self.questions, self.budget, self.policy = load("cluster.yaml")
        self.pod, = load("training-pod.yaml")
        self.template = self.nodes["spec"]["template"]
        self.container = self.template["spec"]["containers"][0]
        self.set_endpoint(self.endpoints())

    def endpoints(self):
        """As the comment at the head of the manifest has them."""
        with open(os.path.join(DEPLOY, "kubernetes", "cluster.yaml")) as file:
            return next(line.split("NCCL_PROBE_ENDPOINT=")[1].strip() for line in file if "NCCL_PROBE_ENDPOINT=" in line)

    def set_endpoint(self, text):
        for variable in self.pod["spec"]["containers"][0]["env"]:
            if variable["name"] == "NCCL_PROBE_ENDPOINT":
                variable["value"] = text

    def set_argument(self, option, value):
        args = self.container["args"]
        args[args.index(option) + 1] = value

    def mistakes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "all.yaml")
            with open(path, "w") as file:
                yaml.safe_dump_all(copy.deepcopy([self.nodes, self.names, self.questions, self.budget, self.policy, self.pod]), file)
            return CHECKER.mistakes([path])

    def assert_refused(self, *words):
        found = self.mistakes()
        self.assertTrue(any(all(word in line for word in words) for line in found), "%s is not in %s" % (words, found))

    def test_the_cluster_and_a_pod_that_names_its_nodes_are_accepted(self):
        self.assertEqual(self.mistakes(), [])
        self.assertEqual(len(self.endpoints().split(",")), self.nodes["spec"]["replicas"])
        self.set_endpoint("tcp://ccld-node-0.ccld-nodes.training.svc.cluster.local:5566")
        self.assertEqual(self.mistakes(), [])

    def test_all_manifests_are_accepted_together(self):
        self.assertEqual(CHECKER.mistakes([os.path.join(DEPLOY, "kubernetes", name) for name in ("cluster.yaml", "service.yaml", "training-pod.yaml")]), [])

    def test_two_of_one_kind_and_name_are_refused(self):
        self.questions["metadata"]["name"] = "ccld-nodes"
        self.assert_refused("Service ccld-nodes", "two of them")

    def test_a_pod_that_does_not_exist_or_has_no_name_is_refused_as_an_endpoint(self):
        for wrong in ("tcp://ccld-node-3.ccld-nodes:5566", "tcp://ccld-node-0:5566", "tcp://ccld-node-0.ccld-cluster:5566",
                      "tcp://ccld-node-0.ccld-nodes:5567", "tcp://ccld-nodes:5566"):
            self.set_endpoint("tcp://ccld-node-1.ccld-nodes:5566," + wrong)
            self.assert_refused("'%s' in NCCL_PROBE_ENDPOINT" % wrong)
        self.set_endpoint(self.endpoints())
        self.nodes["spec"]["replicas"] = 2
        self.assert_refused("'tcp://ccld-node-2.ccld-nodes:5566' in NCCL_PROBE_ENDPOINT")

    def test_a_service_of_names_that_is_missing_not_headless_or_of_other_pods_is_refused(self):
        self.names["spec"]["selector"] = dict(self.pod["metadata"]["labels"])
        self.assert_refused("StatefulSet ccld-node", "does not select them")
        self.names["spec"]["selector"] = dict(self.questions["spec"]["selector"])
        del self.names["spec"]["clusterIP"]
        self.assert_refused("StatefulSet ccld-node", "serviceName ccld-nodes", "clusterIP: None")
        self.nodes["spec"]["serviceName"] = "ccld-knots"
        self.assert_refused("StatefulSet ccld-node", "serviceName ccld-knots")
        del self.nodes["spec"]["serviceName"]
        self.assert_refused("spec", "'serviceName' is a required property")

    def test_nodes_of_one_name_or_one_address_are_refused(self):
        self.set_argument("--cluster-node", "node")
        self.assert_refused("--cluster-node node", "the same in all pods")
        self.set_argument("--cluster-node", "$(POD_NAME)")
        self.set_argument("--cluster-http-url", "http://ccld-cluster:5580")
        self.assert_refused("--cluster-http-url http://ccld-cluster:5580", "the same in all pods")

    def test_an_address_of_a_node_that_leads_nowhere_is_refused(self):
        for wrong in ("http://$(POD_NAME):5580", "http://$(POD_NAME).ccld-nodes:5581", "$(POD_NAME).ccld-nodes:5580"):
            self.set_argument("--cluster-http-url", wrong)
            self.assert_refused("--cluster-http-url " + wrong.replace("$(POD_NAME)", "ccld-node-2"))
        at = self.container["args"].index("--cluster-http-url")
        del self.container["args"][at:at + 2]
        self.assert_refused("--cluster-http-url is missing")

    def test_a_variable_in_the_arguments_that_the_container_lacks_is_refused(self):
        self.container["env"][0]["name"] = "NODE_NAME"
        self.assert_refused("'$(POD_NAME)' of container ccld", "no variable POD_NAME")

    def test_a_volume_that_is_claimed_is_one_and_a_claim_wants_a_size(self):
        claim = self.nodes["spec"]["volumeClaimTemplates"][0]
        claim["metadata"]["name"] = "history"
        self.assert_refused("mounts state, which is no volume")
        claim["metadata"]["name"] = "state"
        claim["spec"]["resources"]["requests"] = {}
        self.assert_refused("spec.volumeClaimTemplates[0].spec.resources.requests", "storage")

    def test_a_budget_for_no_pod_or_with_two_bounds_is_refused(self):
        self.budget["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] = "other"
        self.assert_refused("PodDisruptionBudget ccld-cluster", "no pod")
        self.budget["spec"]["minAvailable"] = 2
        self.assert_refused("spec")

    def test_nodes_have_what_a_single_service_has(self):
        single = load("service.yaml")[0]["spec"]["template"]["spec"]
        own, theirs = self.container, single["containers"][0]
        self.assertEqual(own["args"][:len(theirs["args"])], theirs["args"])
        for field in ("image", "ports", "startupProbe", "readinessProbe", "livenessProbe", "securityContext", "resources"):
            self.assertEqual(own[field], theirs[field], field)
        self.assertEqual(self.template["spec"]["securityContext"], single["securityContext"])
        self.assertIn(single["volumes"][1], self.template["spec"]["volumes"])
        self.assertTrue(self.names["spec"]["publishNotReadyAddresses"])


if __name__ == "__main__":
    unittest.main()
