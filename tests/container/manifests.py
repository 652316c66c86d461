#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes manifests hold what they promise: no privileged container, capabilities that
are those of the systemd unit, selectors that select, probes that exist, and configuration
that the programs accept. With --print-agent the DaemonSet's agent container as JSON, for
run.sh, which starts it."""

import argparse
import configparser
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOLDER = SOURCE / "deploy" / "kubernetes"
FOR_SETPRIV = {"SETUID", "SETGID"}


def documents():
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    for name in kustomization["resources"]:
        for document in yaml.safe_load_all((FOLDER / name).read_text()):
            yield name, document


def find(kind, name):
    return next(d for _, d in documents() if d["kind"] == kind and d["metadata"]["name"] == name)


def workloads():
    return [d for _, d in documents() if d["kind"] in ("DaemonSet", "Deployment")]


def containers(workload):
    spec = workload["spec"]["template"]["spec"]
    return spec.get("initContainers", []) + spec["containers"]


def agent_container():
    return find("DaemonSet", "fleetprof-agent")["spec"]["template"]["spec"]["containers"][0]


def unit_capabilities():
    text = (SOURCE / "systemd" / "fleetprof-agent.service.in").read_text()
    line = re.search(r"^AmbientCapabilities=(.*)$", text, re.M).group(1)
    return {word.removeprefix("CAP_") for word in line.split()}


def setpriv_capabilities(option):
    argument = next(a for a in agent_container()["command"] if a.startswith(f"--{option}="))
    return {word.lstrip("+").upper() for word in argument.split("=", 1)[1].split(",")}


class Check:
    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, holds, sentence):
        print(("ok: " if holds else "FAILED: ") + sentence)
        self.passed += bool(holds)
        self.failed += not holds


def check_rights(check):
    for workload in workloads():
        for container in containers(workload):
            name, context = container["name"], container["securityContext"]
            check(context["privileged"] is False, f"'{name}' is not privileged")
            check(context["allowPrivilegeEscalation"] is False, f"'{name}' cannot gain rights")
            check(context["readOnlyRootFilesystem"] is True, f"'{name}' cannot write its image")
            check(context["capabilities"]["drop"] == ["ALL"], f"'{name}' drops all capabilities")
    added = set(agent_container()["securityContext"]["capabilities"]["add"])
    six = unit_capabilities()
    check(len(six) == 6, "the unit grants six capabilities")
    check(added == six | FOR_SETPRIV, "the DaemonSet adds the unit's six, and two for setpriv")
    for option in ("inh-caps", "ambient-caps"):
        check(setpriv_capabilities(option) == six, f"setpriv hands on the six ({option})")
    spec = find("DaemonSet", "fleetprof-agent")["spec"]["template"]["spec"]
    check(spec["hostPID"] is True, "the agent sees the node's processes")
    check(not spec.get("hostNetwork"), "the agent is not on the node's network")
    writable = {mount["mountPath"] for mount in agent_container()["volumeMounts"]
                if not mount.get("readOnly")}
    check(writable == {"/var/lib/fleetprof", "/run/fleetprof"},
          "of the node the agent can write its own two directories")
    for workload in workloads():
        pod = workload["spec"]["template"]["spec"]
        check(pod["automountServiceAccountToken"] is False,
              f"{workload['metadata']['name']} holds no API token")


def check_shape(check):
    for workload in workloads():
        name = workload["metadata"]["name"]
        labels = workload["spec"]["template"]["metadata"]["labels"]
        wanted = workload["spec"]["selector"]["matchLabels"]
        check(wanted.items() <= labels.items(), f"{name} selects its own pods")
        pod = workload["spec"]["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in containers(workload):
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            check(mounted <= volumes, f"'{container['name']}' mounts volumes that exist")
        check(containers(workload)[-1]["resources"]["limits"].get("cpu") is None,
              f"{name} has no CPU limit")
    service = find("Service", "fleetprof-collector")
    pods = find("Deployment", "fleetprof-collector")["spec"]["template"]["metadata"]["labels"]
    check(service["spec"]["selector"].items() <= pods.items(), "the service finds the collector")
    images = {c["image"] for workload in workloads() for c in containers(workload)}
    version = re.search(r"project\(fleetprof VERSION (\S+)",
                        (SOURCE / "CMakeLists.txt").read_text()).group(1)
    check(images == {f"fleetprof:{version}"}, f"all run one image, of this version ({images})")
    policy = find("NetworkPolicy", "fleetprof-collector")["spec"]
    agents = find("DaemonSet", "fleetprof-agent")["spec"]["template"]["metadata"]["labels"]
    let_in = policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    check(let_in.items() <= agents.items(), "the network policy lets agents in")


def check_configuration(check, build):
    for name in ("agent", "collector"):
        text = find("ConfigMap", f"fleetprof-{name}")["data"][f"{name}.conf"]
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(text)
            file.flush()
            run = subprocess.run([build / name / f"fleetprof-{name}", f"--config={file.name}",
                                  "--check-config"], capture_output=True, text=True)
        check(run.returncode == 0, f"the {name} accepts its ConfigMap {run.stderr.strip()}")
    settings = configparser.ConfigParser()
    settings.read_string(find("ConfigMap", "fleetprof-agent")["data"]["agent.conf"])
    service = find("Service", "fleetprof-collector")["metadata"]["name"]
    port = find("Service", "fleetprof-collector")["spec"]["ports"][0]["port"]
    namespace = find("Namespace", "fleetprof")["metadata"]["name"]
    check(settings["collector"]["url"] == f"http://{service}.{namespace}.svc:{port}",
          "the agent sends to the collector's service")
    metrics = agent_container()["ports"][0]["containerPort"]
    check(settings["agent"]["listen"] == f"0.0.0.0:{metrics}", "the probes find the agent")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--print-agent", action="store_true")
    options = parser.parse_args()
    if options.print_agent:
        print(json.dumps(agent_container()))
        return 0
    check = Check()
    check_rights(check)
    check_shape(check)
    check_configuration(check, options.build)
    print(f"{check.passed} passed, {check.failed} failed")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
