#!/bin/sh
# sanitize.sh COMMAND... - runs COMMAND with the sanitizers' options: every finding ends the program with a failure.
# Address randomisation is off: clang 14's thread sanitizer does not start under the kernel's wide one.
# No interception of TLS lookups: with it, clang 14's leak tracer crashes at the end of a program that has loaded a library.
here=$(cd "$(dirname "$0")" && pwd)
export ASAN_OPTIONS="abort_on_error=0:intercept_tls_get_addr=0:detect_stack_use_after_return=1:strict_string_checks=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$here/tsan.supp:${TSAN_OPTIONS:-}"
export LSAN_OPTIONS="suppressions=$here/lsan.supp:${LSAN_OPTIONS:-}"
if setarch "$(uname -m)" -R true 2>/dev/null; then
    exec setarch "$(uname -m)" -R "$@"
fi
exec "$@"
