// Properties of characters, as they are written in a class of PCRE2 so that they hold what the
// reference library's hold.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// What stands between the brackets: the property of PCRE2 with what its Unicode lacks, or else
// every range. Of a name that is not known: as PCRE2 has it. Any thread may call it.
std::string class_text(std::string_view property);

}  // namespace tessera
