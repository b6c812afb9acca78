#include "data/template/functions/date_text.h"

#include <array>
#include <span>

#include "data/template/values/budget.h"

namespace tessera::jinja {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};

std::string_view name_at(std::span<const std::string_view> names, int index) {
  if (index < 0 || static_cast<size_t>(index) >= names.size()) fault("the date is not valid");
  return names[static_cast<size_t>(index)];
}

int hour_of_twelve(int hour) { return hour % 12 == 0 ? 12 : hour % 12; }

std::string field(char letter, const std::tm& time, bool plain) {
  const auto number = [&](int value, int width) {
    return plain ? std::to_string(value) : fmt::format("{:0{}}", value, width);
  };
  switch (letter) {
    case 'Y':
      return std::to_string(1900 + time.tm_year);
    case 'y':
      return number((1900 + time.tm_year) % 100, 2);
    case 'm':
      return number(time.tm_mon + 1, 2);
    case 'd':
      return number(time.tm_mday, 2);
    case 'e':
      return plain ? std::to_string(time.tm_mday) : fmt::format("{:2}", time.tm_mday);
    case 'H':
      return number(time.tm_hour, 2);
    case 'I':
      return number(hour_of_twelve(time.tm_hour), 2);
    case 'M':
      return number(time.tm_min, 2);
    case 'S':
      return number(time.tm_sec, 2);
    case 'p':
      return time.tm_hour < 12 ? "AM" : "PM";
    case 'j':
      return number(time.tm_yday + 1, 3);
    case 'w':
      return std::to_string(time.tm_wday);
    case 'B':
      return std::string(name_at(kMonths, time.tm_mon));
    case 'b':
      return std::string(name_at(kMonths, time.tm_mon).substr(0, 3));
    case 'A':
      return std::string(name_at(kDays, time.tm_wday));
    case 'a':
      return std::string(name_at(kDays, time.tm_wday).substr(0, 3));
    case 'F':
      return date_text("%Y-%m-%d", time);
    case 'T':
      return date_text("%H:%M:%S", time);
    case 'D':
      return date_text("%m/%d/%y", time);
    case 'R':
      return date_text("%H:%M", time);
    case '%':
      return "%";
    default:
      fault("strftime_now does not know %{}: use %Y, %m, %d, %B, %b, %A, %a, %H, %M or %S", letter);
  }
}

}  // namespace

std::string date_text(std::string_view format, const std::tm& time) {
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      text += format[i];
      continue;
    }
    const bool plain = i + 1 < format.size() && format[i + 1] == '-';
    if (plain) ++i;
    if (++i >= format.size()) fault("the format of strftime_now ends with %: write %%");
    text += field(format[i], time, plain);
  }
  return text;
}

}  // namespace tessera::jinja
