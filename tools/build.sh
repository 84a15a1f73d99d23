#!/bin/sh
# build.sh DIR [MESON-OPTION...] - configures DIR if it is new or was made in another way, then builds it.
# "Another way": other options, compiler, Meson or source folder; what was asked for stands in DIR/.configured.
set -eu

dir=$1
shift
asked="meson $(meson --version) CC=${CC:-} CXX=${CXX:-} source $(pwd) options $*"
if [ ! -f "$dir/build.ninja" ] || [ "$(cat "$dir/.configured" 2>/dev/null)" != "$asked" ]; then
    if [ -d "$dir/meson-private" ]; then
        # Drop Meson's own files only: build/ also holds the virtual environment.
        rm -rf "$dir/meson-private" "$dir/meson-info" "$dir/build.ninja" "$dir/.ninja_deps" "$dir/.ninja_log"
    fi
    meson setup "$dir" "$@" || { rm -rf "$dir/meson-private"; exit 1; }
    printf '%s\n' "$asked" >"$dir/.configured"
fi
exec ninja -C "$dir"
