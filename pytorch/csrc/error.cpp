/* error.cpp - which status becomes which exception. */
#include "error.h"

#include <c10/util/Exception.h>

namespace tandem {

namespace {

const c10::SourceLocation here = {"tandem", "pytorch/csrc", 0};

} // namespace

std::string Place::text() const
{
    const bool is_described = description != nullptr && !description->empty() && *description != "undefined";
    return std::string("tandem: ") + call + " (process group " + *group + (is_described ? " \"" + *description + "\"" : "") + ", rank " +
           std::to_string(rank) + ")";
}

void raise(tdm_status status, const Place &place, const std::string &text)
{
    /* " Timed out " is what torch's own tests look for. */
    const std::string message = place.text() + (status == TDM_ERR_TIMEOUT ? ": Timed out : " : ": ") + text;
    switch (status) {
    case TDM_ERR_INVALID:
    case TDM_ERR_UNSUPPORTED:
        throw c10::Error(here, message);
    default:
        throw c10::DistBackendError(here, message);
    }
}

void raise(tdm_status status, const Place &place)
{
    const std::string text = tdm_error_text();
    raise(status, place, text.empty() ? tdm_status_text(status) : text);
}

std::exception_ptr exception_of(tdm_status status, const Place &place)
{
    try {
        raise(status, place);
    } catch (...) {
        return std::current_exception();
    }
}

} // namespace tandem
