#!/bin/sh
# [RANKS=3 LIMIT_S=25] mpirun.sh MPIRUN... PROGRAM all|errors|huge - every rank must say that all is right. With `errors`, calls are
# left that never end, so no rank ends its MPI in order, and mpirun's exit code says nothing.
set -u
ranks=${RANKS:-3}
for what; do :; done
said=$(timeout -k 1 "${LIMIT_S:-25}" "$@" 2>&1 </dev/null)
code=$?
right=$(printf '%s\n' "$said" | grep -c 'all right')
if [ "$right" != "$ranks" ] || { [ "$what" != errors ] && [ $code != 0 ]; }; then
    printf '%s\nexit code %s, %s of %s ranks are content\n' "$said" "$code" "$right" "$ranks"
    exit 1
fi
