#include "data/tokenizer/common/metaspace.h"

#include "base/text/printable.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

PrependScheme read_scheme(const JsonPlace& place) {
  const std::string name = place.text();
  if (name == "first") return PrependScheme::kFirst;
  if (name == "never") return PrependScheme::kNever;
  if (name == "always") return PrependScheme::kAlways;
  place.fail("prepend_scheme '" + shortened(name) + "' is not known: use first, never or always");
}

}  // namespace

Metaspace read_metaspace(const JsonPlace& place) {
  Metaspace metaspace;
  append_utf8(place.at("replacement").character(), metaspace.replacement);
  if (place.has("prepend_scheme")) metaspace.prepend = read_scheme(place.at("prepend_scheme"));
  // Files of older libraries have add_prefix_space instead, or as well.
  if (!place.truth("add_prefix_space", true)) {
    if (place.has("prepend_scheme") && metaspace.prepend != PrependScheme::kNever) {
      place.fail("add_prefix_space is false, but prepend_scheme is not 'never'");
    }
    metaspace.prepend = PrependScheme::kNever;
  }
  metaspace.split = place.truth("split", true);
  return metaspace;
}

}  // namespace tessera
