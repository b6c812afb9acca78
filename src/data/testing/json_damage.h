// A JSON document with something wrong in it, for tests of readers: another value, a key or an item
// gone, doubled or renamed, at any depth.
#pragma once

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace tessera::testing {

template <typename Json>
class JsonDamage {
 public:
  explicit JsonDamage(std::mt19937_64& random) : random_(random) {}

  void apply(Json& document) {
    Json* at = &document;
    while (at->is_structured() && !at->empty() && pick(6) > 0) {
      auto child = at->begin();
      std::advance(child, static_cast<ptrdiff_t>(pick(at->size())));
      if (pick(5) == 0) return change_child(*at, child);
      at = &*child;
    }
    *at = any_value();
  }

 private:
  size_t pick(size_t count) { return static_cast<size_t>(random_() % count); }

  void change_child(Json& parent, typename Json::iterator child) {
    const Json value = *child;
    if (pick(2) == 0) {
      parent.erase(child);
    } else if (parent.is_array()) {
      parent.push_back(value);
    } else {
      parent[any_text()] = value;
    }
  }
  std::string any_text() {
    static const std::vector<std::string> texts = {"",
                                                   "a",
                                                   " ",
                                                   "type",
                                                   "<s>",
                                                   "\xE2\x96\x81",
                                                   "\xC4\xA0t",
                                                   "(",
                                                   "[",
                                                   "\\",
                                                   "\\p{L}+",
                                                   "(?:",
                                                   "a{1000}",
                                                   "Sequence",
                                                   "BPE",
                                                   "Unigram",
                                                   "ByteLevel",
                                                   "Split",
                                                   "Regex",
                                                   "Metaspace",
                                                   "<0x41>",
                                                   "\xF0\x9F\x99\x82",
                                                   "a b",
                                                   "a b c",
                                                   std::string(300, 'x')};
    return texts[pick(texts.size())];
  }
  Json any_value() {
    switch (pick(11)) {
      case 0:
        return nullptr;
      case 1:
        return pick(2) == 0;
      case 2:
        return static_cast<int64_t>(pick(1000)) - 10;
      case 3:
        return -1;
      case 4:
        return INT64_MAX;
      case 5:
        return uint64_t{1} << 31;
      case 6:
        return 1e300;
      case 7:
        return Json::array();
      case 8:
        return Json::object();
      default:
        return any_text();
    }
  }

  std::mt19937_64& random_;
};

}  // namespace tessera::testing
