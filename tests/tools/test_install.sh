#!/bin/sh
# What `meson install` puts in place works from there: the command finds its libraries, a C program builds with pkg-config.
# test_install.sh ROOT BUILD
set -eu
root=$1 build=$2
there=$(mktemp -d /tmp/tandem-install-XXXXXX)
trap 'rm -rf "$there"' EXIT
DESTDIR=$there/dest meson install -C "$build" --no-rebuild >/dev/null

pc=$(find "$there" -name tandem.pc)
prefix=$there/dest$(sed -n 's/^prefix=//p' "$pc")
export PKG_CONFIG_PATH="$(dirname "$pc")"
unset LD_LIBRARY_PATH # Meson's, which would find the libraries of the build folder

"$prefix/bin/tandem" --version
"$prefix/bin/tandem" train mlp --explain >"$there/explained" # needs libtandem_train
grep -q . "$there/explained"
"$prefix/bin/tandem" doctor "$root/tests/fuzz/corpus/dump/good" >"$there/diagnosis" # needs libtandem_doctor
grep -q . "$there/diagnosis"
flags=$(pkg-config --define-variable=prefix="$prefix" --cflags --libs tandem)
libdir=$(pkg-config --define-variable=prefix="$prefix" --variable=libdir tandem)
# shellcheck disable=SC2086
${CC:-cc} "$root/bench/meet.c" -o "$there/meet" $flags -Wl,-rpath,"$libdir"
"$prefix/bin/tandem" run -n 2 -q -- "$there/meet"
