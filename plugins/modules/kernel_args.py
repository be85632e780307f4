#!/usr/bin/python

# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_args
short_description: Give a node kernel arguments, for good or for one boot first
version_added: 0.1.0
description:
  - Writes kernel arguments where the node's boot loader takes them from, and reads the loader's own menu afterwards to see that the entry
    of the next boot has them.
  - On Debian and Ubuntu it writes C(/etc/default/grub.d/90-inferops-locality.cfg) and runs C(update-grub). On SLES it writes a marked part at the
    end of C(/etc/default/grub) and runs C(pbl --config), or C(grub2-mkconfig) where there is no C(pbl). On the RHEL family it calls C(grubby)
    once with all arguments, for all kernels.
  - Arguments of others keep their text, quotes and order. An argument of others that sets the same is refused with file and line,
    since of two the kernel ignores one.
  - Files that cannot be understood are refused with file and line, and nothing is written. If a command fails or the next boot would not have
    the arguments, all files are put back.
  - Every file is forced to the disk before it takes the place of the old one.
options:
  args:
    description:
      - The arguments, in order. They are all that this module gives the node; those it gave before and that are not listed go.
      - An empty list is the same as O(state=absent).
    type: list
    elements: str
    default: []
  state:
    description:
      - V(absent) takes away all arguments that were ever given by this module, and a trial. A file of somebody else that was edited gets its
        original back, byte by byte; if it was changed since, only what is ours goes.
    type: str
    choices: [present, absent]
    default: present
  boot_once:
    description:
      - Try the arguments in one boot first. The default entry stays as it is; a second entry has the arguments, and GRUB is told to start it once.
        It forgets that before it starts the kernel, so that any boot after that one has the previous arguments, whatever happened.
      - After the reboot, the same call without O(boot_once) confirms the trial. The arguments become those of the default entry, and every trace of
        the trial goes. On a node that is back on its previous arguments this call fails.
      - A panic ends the trial by C(panic=). A hang after systemd has started is ended by the hardware's watchdog, if there is one. A node that is up and
        was not confirmed restarts after O(confirm_minutes). A hang before systemd is ended only by a watchdog that the firmware or the initramfs has
        started, or by somebody with power over the machine.
      - It needs C(/boot) on a plain ext4, xfs or FAT partition, where GRUB can write. Below another O(root) it has no effect.
    type: bool
    default: false
  adopt:
    description:
      - Take over arguments of others that set the same. They are taken out of their files, whose originals are saved and come back with O(state=absent).
    type: bool
    default: false
  allow_no_fallback:
    description:
      - With O(boot_once), write the arguments for good where they cannot be tried once. Otherwise such a node is refused, with V(boot.no_fallback).
    type: bool
    default: false
  retry:
    description:
      - With O(boot_once), try arguments again whose trial failed. A power cut in a trial looks like a failure too.
    type: bool
    default: false
  panic_seconds:
    description: In a trial, seconds from a panic to the restart.
    type: int
    default: 10
  watchdog_seconds:
    description: In a trial, seconds without a sign of life of systemd after which the hardware's watchdog restarts the node.
    type: int
    default: 60
  confirm_minutes:
    description: In a trial, minutes since the boot after which a node that was not confirmed restarts.
    type: int
    default: 60
  root:
    description:
      - Directory in which the machine's C(/) lies. Below another directory than V(/) only files are written; no command is run.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Can run in check mode and return what would be written and armed.
  diff_mode:
    support: full
    description: Returns the files before and after. What C(grubby) changes is not in it.
  idempotent:
    support: full
    description: A second run with the same options changes nothing.
author:
  - The inferops.locality authors (@inferops)
seealso:
  - module: inferops.locality.locality_plan
  - module: inferops.locality.locality_state
"""

EXAMPLES = r"""
- name: Try the arguments of the plan in one boot
  inferops.locality.kernel_args:
    args: "{{ planned.plan.kernel_args }}"
    boot_once: true
  register: tried

- name: Reboot
  ansible.builtin.reboot:
  when: tried.reboot_required

- name: Confirm the arguments, or fail if the node is back on its previous ones
  inferops.locality.kernel_args:
    args: "{{ planned.plan.kernel_args }}"

- name: Take all arguments away
  inferops.locality.kernel_args:
    state: absent
"""

RETURN = r"""
loader:
  description: Kind of boot loader, one of V(grub-drop-in), V(grub-default) and V(bls).
  returned: success
  type: str
  sample: grub-drop-in
written:
  description: Files that were written or removed, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/etc/default/grub.d/90-inferops-locality.cfg]
commands:
  description: Commands that were run to make the arguments take effect, or would be in check mode. Those of a trial are not listed.
  returned: success
  type: list
  elements: str
  sample: [update-grub]
next_boot:
  description: The entry that the next boot uses, where its arguments stand, and the arguments. Secrets are masked. In check mode, as it would be.
  returned: success
  type: dict
  sample: {entry: gnulinux-simple-1234, source: "/boot/grub/grub.cfg:120", args: [ro, quiet, "irqaffinity=0-1"]}
foreign:
  description: Arguments of others that set the same, with file and line. Not empty on success only with O(adopt).
  returned: success, or failure because of them
  type: list
  elements: dict
  sample: [{token: "isolcpus=1", file: /etc/default/grub, line: 6}]
reboot_required:
  description: Whether the running kernel has other arguments than the next boot will have.
  returned: success
  type: bool
  sample: true
trial:
  description:
    - RV(trial.state) is V(none), V(armed) (the next boot is the trial), V(running) (this boot is, and it waits to be confirmed) or V(failed).
    - RV(trial.possible) tells whether the node can try an entry once, else RV(trial.reason) why not. RV(trial.watchdog) tells whether there is a watchdog.
  returned: success
  type: dict
  contains:
    state:
      description: State of the trial.
      type: str
      sample: armed
    args:
      description: Arguments on trial.
      type: list
      elements: str
      sample: ["irqaffinity=0-1"]
    possible:
      description: Whether the node can try an entry once.
      type: bool
      sample: true
    reason:
      description: Why not.
      type: str
      sample: null
    watchdog:
      description: Whether the node has a watchdog. V(null) below another O(root).
      type: bool
      sample: true
"""

from typing import Sequence, Tuple

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.inferops.locality.plugins.module_utils import boot, boot_steps
from ansible_collections.inferops.locality.plugins.module_utils.boot_files import BootError
from ansible_collections.inferops.locality.plugins.module_utils.boot_trial import Safety

_ADMIN_PATHS = ["/usr/sbin", "/sbin", "/usr/local/sbin"]


class ModuleRunner(boot.Runner):
    """Commands run by Ansible."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module

    def find(self, program: str) -> bool:
        """See the base class."""
        return self.module.get_bin_path(program, opt_dirs=_ADMIN_PATHS) is not None

    def run(self, argv: Sequence[str]) -> Tuple[int, str, str]:
        """See the base class."""
        path = self.module.get_bin_path(argv[0], required=True, opt_dirs=_ADMIN_PATHS)
        rc, out, err = self.module.run_command([path, *argv[1:]], environ_update={"LC_ALL": "C", "LANG": "C"})
        return rc, out, err


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "args": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "boot_once": {"type": "bool", "default": False},
            "adopt": {"type": "bool", "default": False},
            "allow_no_fallback": {"type": "bool", "default": False},
            "retry": {"type": "bool", "default": False},
            "panic_seconds": {"type": "int", "default": 10},
            "watchdog_seconds": {"type": "int", "default": 60},
            "confirm_minutes": {"type": "int", "default": 60},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    params = module.params
    for name, least in (("panic_seconds", 1), ("watchdog_seconds", 10), ("confirm_minutes", 2)):
        if params[name] < least:
            module.fail_json(msg=f"{name}: found {params[name]}, wanted {least} or more")
    node = boot.Node(params["root"], ModuleRunner(module))
    wish = boot_steps.Wish(
        params["boot_once"], params["adopt"], params["allow_no_fallback"], params["retry"],
        Safety(params["panic_seconds"], params["watchdog_seconds"], params["confirm_minutes"]),
    )
    try:
        if params["state"] == "absent":
            outcome = boot_steps.absent(node, module.check_mode)
        else:
            outcome = boot_steps.present(node, params["args"], wish, module.check_mode)
    except BootError as error:
        module.fail_json(msg=str(error), foreign=error.foreign)
    for warning in outcome.warnings:
        module.warn(warning)
    module.exit_json(
        changed=outcome.changed, loader=outcome.loader, written=outcome.written, commands=outcome.commands, next_boot=outcome.next_boot,
        foreign=outcome.foreign, reboot_required=outcome.reboot_required, trial=outcome.trial, diff=outcome.diff,
    )


if __name__ == "__main__":
    main()
