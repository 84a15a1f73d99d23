#!/bin/sh
# Every public header compiles alone, as strict C11 and as C++11, and tandem.h includes them all.
set -u
include=${1:-$(dirname "$0")/../../include}
bad=0
for header in "$include"/tandem/*.h; do
    name=tandem/$(basename "$header")
    printf '#include <%s>\n' "$name" | ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -I "$include" -fsyntax-only -x c - ||
        { echo "$name does not compile alone as C11"; bad=1; }
    printf '#include <%s>\n' "$name" | ${CXX:-c++} -std=c++11 -Wall -Wextra -Wpedantic -Werror -I "$include" -fsyntax-only -x c++ - ||
        { echo "$name does not compile alone as C++11"; bad=1; }
    # A header comes in through tandem.h itself or through one that it includes.
    printf '#include <tandem/tandem.h>\n' | ${CC:-cc} -std=c11 -I "$include" -M -x c - | grep -q "$name" ||
        { echo "tandem.h does not include $name"; bad=1; }
done
exit $bad
