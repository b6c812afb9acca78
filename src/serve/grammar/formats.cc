#include "serve/grammar/formats.h"

namespace tessera::serve::grammar {
namespace {

struct Format {
  std::string_view name;
  std::string_view pattern;
};

// Days that there are, those of leap years too; seconds up to 59.
#define TESSERA_DATE                                                \
  "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|"       \
  "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|" \
  "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
#define TESSERA_TIME \
  "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define TESSERA_BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define TESSERA_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define TESSERA_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
#define TESSERA_H16 "[0-9a-fA-F]{1,4}"

constexpr Format kFormats[] = {
    {"date", "^" TESSERA_DATE "$"},
    {"time", "^" TESSERA_TIME "$"},
    {"date-time", "^" TESSERA_DATE "T" TESSERA_TIME "$"},
    {"duration",
     "^P(?:\\d{1,9}W|(?:\\d{1,9}Y(?:\\d{1,9}M(?:\\d{1,9}D)?)?|\\d{1,9}M(?:\\d{1,9}D)?|\\d{1,9}D)"
     "(?:T(?:\\d{1,9}H(?:\\d{1,9}M(?:\\d{1,9}S)?)?|\\d{1,9}M(?:\\d{1,9}S)?|\\d{1,9}S))?|"
     "T(?:\\d{1,9}H(?:\\d{1,9}M(?:\\d{1,9}S)?)?|\\d{1,9}M(?:\\d{1,9}S)?|\\d{1,9}S))$"},
    {"uuid", "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
    {"email",
     "^" TESSERA_ATOM "(?:\\." TESSERA_ATOM "){0,2}@(?:" TESSERA_LABEL "\\.){1,3}[A-Za-z]{2,24}$"},
    {"hostname", "^" TESSERA_LABEL "(?:\\." TESSERA_LABEL "){0,3}$"},
    {"ipv4", "^" TESSERA_BYTE "(?:\\." TESSERA_BYTE "){3}$"},
    {"ipv6", "^(?:(?:" TESSERA_H16 ":){7}" TESSERA_H16 "|(?:" TESSERA_H16 ":){1,7}:|(?:" TESSERA_H16
             ":){1,6}:" TESSERA_H16 "|(?:" TESSERA_H16 ":){1,5}(?::" TESSERA_H16
             "){1,2}|(?:" TESSERA_H16 ":){1,4}(?::" TESSERA_H16 "){1,3}|(?:" TESSERA_H16
             ":){1,3}(?::" TESSERA_H16 "){1,4}|(?:" TESSERA_H16 ":){1,2}(?::" TESSERA_H16
             "){1,5}|" TESSERA_H16 ":(?::" TESSERA_H16 "){1,6}|:(?:(?::" TESSERA_H16 "){1,7}|:))$"},
};

#undef TESSERA_DATE
#undef TESSERA_TIME
#undef TESSERA_BYTE
#undef TESSERA_LABEL
#undef TESSERA_ATOM
#undef TESSERA_H16

}  // namespace

std::string_view pattern_of_format(std::string_view format) {
  for (const Format& known : kFormats) {
    if (known.name == format) return known.pattern;
  }
  return {};
}

std::string known_formats() {
  std::string all;
  for (const Format& known : kFormats) {
    if (!all.empty()) all += ", ";
    all += known.name;
  }
  return all;
}

}  // namespace tessera::serve::grammar
