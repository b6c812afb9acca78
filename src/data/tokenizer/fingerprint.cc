#include "data/tokenizer/fingerprint.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/hash.h"

namespace tessera {
namespace {

using nlohmann::json;

// Objects of this type keep their keys sorted. Files are never deeper than 64 (parse_json).
void add_value(const json& value, Hasher& hasher) {
  hasher.add(
      static_cast<int>(value.is_number_integer() ? json::value_t::number_integer : value.type()));
  switch (value.type()) {
    case json::value_t::object:
      hasher.add(value.size());
      for (const auto& [key, child] : value.items()) {
        hasher.add(key);
        add_value(child, hasher);
      }
      return;
    case json::value_t::array:
      hasher.add(value.size());
      for (const json& child : value) add_value(child, hasher);
      return;
    case json::value_t::string:
      return hasher.add(value.get_ref<const std::string&>());
    case json::value_t::boolean:
      return hasher.add(static_cast<int>(value.get<bool>()));
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return hasher.add(value.get<int64_t>());
    case json::value_t::number_float:
      return hasher.add(value.get<double>());
    default:
      return;
  }
}

// "a b" and ["a", "b"] are the same merge.
void add_merges(const json& merges, Hasher& hasher) {
  for (const json& merge : merges) {
    const bool pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (pair) {
      hasher.add(merge[0].get_ref<const std::string&>() + " " +
                 merge[1].get_ref<const std::string&>());
    } else if (merge.is_string()) {
      hasher.add(merge.get_ref<const std::string&>());
    } else {
      add_value(merge, hasher);
    }
  }
}

// As add_value() of an object.
void add_vocab(const ModelLists& lists, Hasher& hasher) {
  hasher.add(static_cast<int>(json::value_t::object));
  hasher.add(lists.vocab.size());
  std::vector<const std::pair<std::string, int32_t>*> sorted;
  sorted.reserve(lists.vocab.size());
  for (const auto& entry : lists.vocab) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->first < b->first; });
  for (const auto* entry : sorted) {
    hasher.add(entry->first);
    hasher.add(static_cast<int>(json::value_t::number_integer));
    hasher.add(entry->second);
  }
}

// As add_merges().
void add_merges(const ModelLists& lists, Hasher& hasher) {
  std::string text;
  for (const auto& [left, right] : lists.merges) {
    text.assign(left).append(" ").append(right);
    hasher.add(text);
  }
}

// `lists`: null, or what stands for the model's vocabulary and merges.
std::string fingerprint(const json& document, const ModelLists* lists) {
  Hasher hasher;
  for (const auto& [key, value] : document.items()) {
    if (key == "truncation" || key == "padding" || key == "version") continue;
    hasher.add(key);
    if (key != "model" || !value.is_object()) {
      add_value(value, hasher);
      continue;
    }
    for (const auto& [part, child] : value.items()) {
      hasher.add(part);
      if (lists != nullptr && part == "vocab") {
        add_vocab(*lists, hasher);
      } else if (lists != nullptr && part == "merges") {
        add_merges(*lists, hasher);
      } else if (part == "merges" && child.is_array()) {
        add_merges(child, hasher);
      } else {
        add_value(child, hasher);
      }
    }
  }
  return hex(hasher.value());
}

}  // namespace

std::string tokenizer_fingerprint(const json& document) { return fingerprint(document, nullptr); }
std::string tokenizer_fingerprint(const json& document, const ModelLists& lists) {
  return fingerprint(document, &lists);
}

}  // namespace tessera
