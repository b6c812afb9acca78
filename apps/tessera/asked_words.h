// What tests ask of the command line, and how they look at the answer.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "in_process.h"

namespace tessera::testing {

using Words = std::vector<std::string>;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The document of `words --json`, which must succeed.
inline nlohmann::json json_of(const Words& words) {
  const Ended ended = run_in_process(words + Words{"--json"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  return nlohmann::json::parse(ended.out, nullptr, false);
}

// The message of what must be refused as a mistake.
inline std::string refusal_of_command(const Words& words) {
  const Ended ended = run_in_process(words);
  EXPECT_EQ(ended.code, 2) << ended.out;
  return ended.err;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tessera::testing
