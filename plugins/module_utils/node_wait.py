# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits until a node is back: what :mod:`node_turn` judges, for some time without a break, with a kubelet that is alive."""

from __future__ import annotations

import time
from typing import Callable, List, Optional

from ansible_collections.inferops.locality.plugins.module_utils import kube_client, node_turn
from ansible_collections.inferops.locality.plugins.module_utils.kube_client import Api, ApiError

LOOK_SECONDS = 2


class Wait:
    """:ivar missing: what is not as it has to be, at the last look. :ivar boot_id: the boot that the kubelet reported last."""

    def __init__(  # noqa: PLR0913
        self, api: Api, node: str, *, boot_before: str = "", stable_seconds: int = 15,
        clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api = api
        self._node = node
        self._boot_before = boot_before
        self._stable_seconds = stable_seconds
        self._clock = clock
        self._sleep = sleep
        self.missing: List[str] = ["nobody has looked yet"]
        self.boot_id = ""

    def look(self) -> None:
        """Look once.

        :raises ApiError: refused or not reached. :raises MarkError: the annotation cannot be understood.
        """
        node = kube_client.get_node(self._api, self._node)
        mark = node_turn.mark_of(node)
        self.boot_id = node_turn.boot_id(node)
        self.missing = node_turn.not_ready(
            node, kube_client.pods_of(self._api, self._node), wanted_extended=mark.extended if mark else {}, wanted_residents=mark.residents if mark else (),
            boot_before=self._boot_before,
        )

    def run(self, timeout: int) -> None:
        """Look until all is well and stays so; ``missing`` is empty then. An API server that cannot be reached for a while is waited for as well.

        :param timeout: seconds. :raises ApiError: refused. :raises MarkError: the annotation cannot be understood.
        """
        began = self._clock()
        well_since: Optional[float] = None
        renewed_then: Optional[str] = None
        while True:
            try:
                self.look()
                renewed = self._renewed()
            except ApiError as error:
                if error.status not in kube_client.PASSING:
                    raise
                self.missing, renewed = [str(error)], None
            now = self._clock()
            if self.missing:
                well_since = None
            elif well_since is None:
                well_since, renewed_then = now, renewed
            elif now - well_since >= self._stable_seconds and renewed is not None and renewed != renewed_then:
                return
            if now - began >= timeout:
                # Well, but not for long enough, or with a kubelet that is silent.
                self.missing = self.missing or [f"its kubelet has not renewed Lease kube-node-lease/{self._node} since {renewed}, or only just came back"]
                return
            self._sleep(LOOK_SECONDS)

    def _renewed(self) -> Optional[str]:
        try:
            lease = self._api.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{self._node}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return str((lease.get("spec") or {}).get("renewTime"))


__all__ = ("LOOK_SECONDS", "Wait")
