/* label.h - what libtandem calls the calls of a process group in the texts of errors and in the flight recorder: torch's operation and
 * group, as in "all_reduce of default_pg" or `_all_gather_base of "tp"`. */
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <array>
#include <string>

namespace tandem {

/* Of one process group. Guarded by its group's `calls`. */
class Labels {
  public:
    /* The same pointer each time, as long as this lives. */
    const char *of(c10d::OpType type, const std::string &group, const std::string &description);

  private:
    std::array<std::string, 32> texts_; /* by type, made when first needed */
};

} // namespace tandem
