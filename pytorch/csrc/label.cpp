/* label.cpp - labels are made once. */
#include "label.h"

#include "types.h"

#include <algorithm>

namespace tandem {

namespace {

/* Of a description, so that there is room for what stands behind it. */
constexpr size_t longest = 48;

/* Cut between characters of UTF-8. */
std::string head_of(const std::string &text)
{
    size_t length = std::min(text.size(), longest);
    while (length > 0 && length < text.size() && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80)
        length--;
    return text.substr(0, length);
}

std::string text_of(c10d::OpType type, const std::string &group, const std::string &description)
{
    const std::string of = std::string(call_name(type)) + " of ";
    if (description.empty() || description == "undefined")
        return of + "group " + head_of(group);
    if (description == "default_pg")
        return of + description;
    return of + "\"" + head_of(description) + "\"";
}

} // namespace

const char *Labels::of(c10d::OpType type, const std::string &group, const std::string &description)
{
    std::string &text = texts_.at(static_cast<size_t>(type));
    if (text.empty())
        text = text_of(type, group, description);
    return text.c_str();
}

} // namespace tandem
