# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a kubelet says it runs with, in the form of knobs. The real one is asked in tests/cluster; here a stand-in answers, as a kubelet does."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest

from ansible_collections.inferops.locality.plugins.module_utils import kubelet_args, kubelet_configz, plan
from ansible_collections.inferops.locality.tests.unit.strategies import PLATFORM, regular, topology

CONFIG: Dict[str, Any] = {
    "cpuManagerPolicy": "static", "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true", "full-pcpus-only": "true"},
    "cpuManagerReconcilePeriod": "10s", "topologyManagerPolicy": "restricted", "topologyManagerScope": "container",
    "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "16"}, "memoryManagerPolicy": "Static",
    "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1100Mi"}}, {"numaNode": 1, "limits": {"memory": "1Gi"}}],
    # The kubelet counts the CPUs of the list itself.
    "reservedSystemCPUs": "0-1,4-5", "systemReserved": {"cpu": "4", "memory": "1Gi"}, "kubeReserved": {"memory": "1Gi"},
    "evictionHard": {"memory.available": "100Mi", "imagefs.available": "5%"},
}


def test_its_fields_are_the_knobs_that_the_flags_of_the_same_name_are() -> None:
    assert kubelet_configz.running(CONFIG) == kubelet_args.values([
        ("cpu-manager-policy", "static"), ("cpu-manager-policy-options", "full-pcpus-only=true"),
        ("cpu-manager-policy-options", "strict-cpu-reservation=true"), ("topology-manager-policy", "restricted"), ("topology-manager-scope", "container"),
        ("topology-manager-policy-options", "max-allowable-numa-nodes=16"), ("memory-manager-policy", "Static"),
        ("reserved-memory", "0:memory=1100Mi;1:memory=1Gi"), ("reserved-cpus", "0-1,4-5"), ("system-reserved", "memory=1Gi"),
        ("kube-reserved", "memory=1Gi"), ("eviction-hard", "memory.available<100Mi,imagefs.available<5%"),
    ])
    assert set(kubelet_configz.running({}).values()) == {None}
    by_count = {"systemReserved": {"cpu": "2"}, "kubeReserved": {"cpu": "500m"}}
    assert [kubelet_configz.running(by_count)[f"kubelet.{name}_reserved"] for name in ("system", "kube")] == [{"cpu": "2"}, {"cpu": "500m"}]


def test_each_flag_of_a_plan_has_a_field() -> None:
    made = plan.make_plan(topology(regular(cores=2)), PLATFORM, {})
    given = dict(argument.split("=", 1) for argument in made["kubelet"]["args"])
    known = {flag for flag, knob in kubelet_args.FLAGS.items() if knob in kubelet_args.FIELDS.values()}
    assert set(given) <= known and set(kubelet_args.FLAGS) == known


class StandInKubelet(BaseHTTPRequestHandler):
    answers: List[Tuple[int, bytes]] = []
    asked: List[Tuple[str, str]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization") or ""))
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    if not shutil.which("openssl"):
        pytest.skip("no openssl here to make a certificate with")
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=node", "-days", "1", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = HTTPServer(("127.0.0.1", 0), StandInKubelet)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    StandInKubelet.answers, StandInKubelet.asked = [], []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()


def test_a_stand_in_is_asked_with_the_token_and_a_passing_refusal_is_waited_for(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet_configz.time, "sleep", lambda _seconds: None)
    StandInKubelet.answers = [(401, b"Unauthorized"), (200, json.dumps({"kubeletconfig": CONFIG}).encode())]
    assert kubelet_configz.read("sesame", port, timeout=30) == CONFIG
    assert StandInKubelet.asked == [("/configz", "Bearer sesame")] * 2


@pytest.mark.parametrize("answer, status, told", [
    ((403, b"Forbidden (user=x, verb=get, resource=nodes, subresource(s)=[configz proxy])"), 403, "docs/rbac-configz.yaml, and Kubernetes 1.33 or newer"),
    ((200, b"<html>"), 200, "wanted an object with kubeletconfig"),
    ((200, b'{"kubeletconfig": 1}'), 200, "kubeletconfig is no object"),
    ((503, b"starting"), 503, "HTTP 503 starting"),
], ids=["forbidden", "page", "number", "starting"])
def test_what_a_stand_in_refuses_is_told(port: int, answer: Tuple[int, bytes], status: int, told: str) -> None:
    StandInKubelet.answers = [answer]
    with pytest.raises(kubelet_configz.ConfigzError) as error:
        kubelet_configz.read("sesame", port, timeout=1)
    assert error.value.status == status and told in str(error.value) and "sesame" not in str(error.value)


def test_a_kubelet_that_is_not_there_is_told() -> None:
    with pytest.raises(kubelet_configz.ConfigzError, match=r"was not reached at https://127[.]0[.]0[.]1:1/configz") as error:
        kubelet_configz.read("sesame", 1, timeout=0)
    assert error.value.status == 0
