// The two long lists of a tokenizer.json, read without a tree of values: nearly all of such a file
// is its vocabulary and its merges, and a tree of them takes most of the time that loading takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

struct ModelLists {
  std::vector<std::pair<std::string, int32_t>> vocab;  // in the order of the file, none twice
  std::vector<std::pair<std::string, std::string>> merges;
};

struct SplitModel {
  ModelLists lists;
  std::string rest;  // the file with {} and [] in their places
};

// None for whatever is not written as usual: another model than BPE, numbers that are no ids, a
// token or an id twice, damage of any kind. Such a file is for a parser that knows all of JSON and
// says what is wrong. What is outside the two lists is not looked at closely.
std::optional<SplitModel> split_model(std::string_view json);

}  // namespace tessera
