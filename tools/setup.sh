#!/bin/sh
# setup.sh [SECTION...] - installs the packages of these sections of tools/packages.txt that are missing (default: build).
# Does not touch apt when all are there. Needs root only when something is missing.
set -eu

list=$(dirname "$0")/packages.txt
[ $# -gt 0 ] || set -- build

wanted=""
for section in "$@"; do
    found=$(sed -e 's/#.*//' -e 's/[[:space:]]*$//' "$list" |
        awk -v section="[$section]" '/^\[/ { inside = ($0 == section); next } inside && NF { print }')
    [ -n "$found" ] || { echo "setup: $list has no section [$section]" >&2; exit 2; }
    wanted="$wanted $found"
done

if ! command -v dpkg-query >/dev/null; then
    echo "setup: this is no Debian; install what matches these packages by hand, then go on:" $wanted >&2
    exit 0
fi

missing=""
for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=absent
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
    echo "setup: these packages are missing; run as root:  apt-get install$missing" >&2
    exit 1
fi

echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
install() {
    apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install --no-install-recommends $missing </dev/null
}
# The package lists may be absent or old: fetch them when, and only when, the first try fails.
if ! install >/dev/null 2>&1; then
    apt-get -q -o DPkg::Lock::Timeout=300 update || { echo "setup: apt-get update failed (no network?)" >&2; exit 1; }
    install || { echo "setup: could not install$missing; the lines above say why" >&2; exit 1; }
fi
