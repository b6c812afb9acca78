// Python's strftime, for `strftime_now` of templates. Pure: the time is given.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

namespace tessera::jinja {

// %Y %y %m %d %e %H %I %M %S %p %j %B %b %A %a %w %F %T %D %R %%, and %-d without leading zeros, in
// English. Fails for other letters.
std::string date_text(std::string_view format, const std::tm& time);

}  // namespace tessera::jinja
