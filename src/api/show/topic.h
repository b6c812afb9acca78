// What Tessera can show of itself: a pipeline schedule, a collective, a rounded number, each worked
// out by the algorithms that train. A topic says its fields once; the flags of `tessera show`, the
// keys of a request, its checks and the help all come from there.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "api/surroundings.h"

namespace tessera {

struct ShowField {
  enum class Kind : uint8_t {
    kWhole,   // 8, or a text that says it: "8k"
    kReal,    // 0.5
    kReals,   // [1, 2.5], or "1,2.5"
    kText,    // any text
    kChoice,  // one of `choices`
    kTruth,   // true or false; a flag without a value
    kJson,    // anything, or a text that is JSON; the topic looks at it
    kSize,    // 8, or a text that says it: "8k", "4Mtok"; the topic looks at it
    kTexts,   // a list of texts; its flag may be given several times
  };
  std::string_view name;  // a key, "micro_batches"; its flag is --micro-batches
  Kind kind = Kind::kWhole;
  std::string_view fallback;  // as a user would write it; empty: there is none unless given
  std::string_view help;
  double least = 0, most = 1e15;     // of a number, or of each in a list
  std::string_view choices = {};     // "a|b|c"
  std::string_view value_name = {};  // in help; empty: by its kind
};

class ShowValues;
using ShowText = std::string (*)(const ShowValues& values, const Surroundings& around);

// `text`, or nothing in a build whose answers nobody reads in a terminal: the studio's module,
// which is 20 KB smaller without texts.
constexpr ShowText for_terminals([[maybe_unused]] ShowText text) {
#ifdef TESSERA_NO_TERMINAL
  return nullptr;
#else
  return text;
#endif
}

struct ShowTopic {
  std::string_view name;     // also the method's, and the "kind" of its answer
  std::string_view summary;  // one sentence
  std::string_view example;  // flags
  std::span<const ShowField> fields;
  nlohmann::ordered_json (*json)(const ShowValues& values, const Surroundings& around);
  ShowText text;  // lines for a terminal of any width
};

std::span<const ShowTopic> show_topics();

// Both throw ConfigError for a key that no field has (with the nearest), and for a value of another
// type or out of range; and whatever the topic refuses. The JSON begins with schema_version and
// kind.
nlohmann::ordered_json show_json(const ShowTopic& topic, const nlohmann::json& request,
                                 const Surroundings& around);
std::string show_text(const ShowTopic& topic, const nlohmann::json& request,
                      const Surroundings& around);

}  // namespace tessera
