/* error.h - a status of libtandem as the exception that torch's users catch: DistBackendError (a RuntimeError) where peers, machine or
 * group are at fault, RuntimeError, as gloo has it, for an argument or a combination that does not exist. The text is libtandem's. */
#pragma once

#include <tandem/status.h>

#include <exception>
#include <string>

namespace tandem {

/* Where something is wrong: cheap to make, becomes text when it is needed. Borrows all. */
struct Place {
    const char *call;         /* "all_reduce" */
    const std::string *group; /* name of the process group */
    int rank;                 /* in it */
    const std::string *description = nullptr; /* that torch has of the group; nullptr, "" and "undefined": none */
    std::string text() const;
};

/* What went wrong in this thread's last call of libtandem. */
[[noreturn]] void raise(tdm_status status, const Place &place);
std::exception_ptr exception_of(tdm_status status, const Place &place);
/* A fault that this backend finds itself. */
[[noreturn]] void raise(tdm_status status, const Place &place, const std::string &text);

} // namespace tandem
