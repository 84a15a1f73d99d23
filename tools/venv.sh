#!/bin/sh
# venv.sh DIR - makes DIR a Python virtual environment with tools/requirements.txt, unless it is one already.
# The CPU build of PyTorch is enough: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu gets it where pip would
# otherwise choose the larger CUDA build.
set -eu

dir=$1
needs=$(dirname "$0")/requirements.txt
cmp -s "$needs" "$dir/.installed" && exit 0
echo "venv: making $dir (PyTorch is large: this takes a few minutes)"
[ -x "$dir/bin/pip" ] || python3 -m venv "$dir"
"$dir/bin/pip" install --quiet --disable-pip-version-check -r "$needs" || {
    echo "venv: pip could not install $(tr '\n' ' ' <"$needs"); the lines above say why" >&2
    exit 1
}
cp "$needs" "$dir/.installed"
