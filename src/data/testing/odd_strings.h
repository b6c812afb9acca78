// Strings that tokenizers trip over: odd spaces, apostrophes, emoji, long runs, bytes that are not
// UTF-8. Each is made from its number alone, as tools/record_fuzz.js makes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::testing {

class OddStrings {
 public:
  // `folder`: tests/data/tokenizers, where odd_parts.json has the parts.
  explicit OddStrings(const std::string& folder);
  // One in eight is not UTF-8.
  [[nodiscard]] std::string make(uint32_t number) const;

 private:
  std::vector<std::string> borders_;  // spaces and apostrophes
  std::vector<std::string> all_;
};

}  // namespace tessera::testing
