#!/bin/sh
# Copyright (c) 2026 The inferops.locality authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs once in the new system (chroot), after its packages and the files of root/ are there.
set -eu

mkdir -p /etc/default/grub.d
rm -f /etc/hostname /etc/ssh/ssh_host_*
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
ssh-keygen -q -t ed25519 -N '' -C locality-lab -f /etc/ssh/ssh_host_ed25519_key

systemctl enable systemd-networkd ssh lab-stand-in-gpus rke2-agent
# As installed these two would be on; a play turns them on where it needs them. Starting them costs 20 s under emulation.
systemctl disable tuned containerd
systemctl mask systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer \
    e2scrub_all.timer e2scrub_reap.service systemd-pstore.service getty@tty1.service systemd-binfmt.service \
    modprobe@drm.service modprobe@efi_pstore.service
mkdir -p /etc/systemd/system-generators
for generator in ssh gpt-auto hibernate-resume sysv; do
    ln -s /dev/null "/etc/systemd/system-generators/systemd-$generator-generator"
done

kernel=
for file in /boot/vmlinuz-*; do kernel=${file#/boot/vmlinuz-}; done
update-initramfs -u -k "$kernel"

# GRUB for BIOS, as grub-install would make it, but without a disk to probe.
mkdir -p /boot/grub/i386-pc /tmp/grub
cp /usr/lib/grub/i386-pc/*.mod /usr/lib/grub/i386-pc/*.lst /boot/grub/i386-pc/
cat > /tmp/grub/early.cfg <<'CFG'
search --no-floppy --label root --set=root
set prefix=($root)/boot/grub
configfile ($root)/boot/grub/grub.cfg
CFG
grub-mkimage -O i386-pc -p /boot/grub -c /tmp/grub/early.cfg -o /tmp/grub/core.img \
    biosdisk part_gpt ext2 normal configfile search search_label search_fs_uuid linux echo test true loadenv \
    terminal serial gzio minicmd ls cat regexp reboot halt sleep
cp /usr/lib/grub/i386-pc/boot.img /tmp/grub/boot.img
grub-editenv /boot/grub/grubenv create
# For the first boot only, in which update-grub writes the real one. Written last: kernel hooks would act on it.
cat > /boot/grub/grub.cfg <<CFG
linux /boot/vmlinuz-$kernel root=LABEL=root ro console=ttyS0,115200 no_timer_check
initrd /boot/initrd.img-$kernel
boot
CFG
