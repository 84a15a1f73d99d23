#!/bin/sh
# mpirun.sh MPIRUN... -n 3 PROGRAM all|errors - every rank must say that all is right. With `errors`, calls are left that never end,
# so no rank ends its MPI in order, and mpirun's exit code says nothing.
set -u
for what; do :; done
said=$(timeout -k 1 25 "$@" 2>&1 </dev/null)
code=$?
right=$(printf '%s\n' "$said" | grep -c 'all right')
if [ "$right" != 3 ] || { [ "$what" = all ] && [ $code != 0 ]; }; then
    printf '%s\nexit code %s, %s of 3 ranks are content\n' "$said" "$code" "$right"
    exit 1
fi
