#include "data/tokenizer/steps/precompiled.h"

#include <array>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/base64.h"
#include "data/tokenizer/steps/charsmap.h"
#include "data/tokenizer/unicode/grapheme.h"
#include "data/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

// Appends what a part of `num_old` characters became. Characters that are too many stand for
// nothing new, those that are too few take the rest with them; where nothing is left of a part at
// the beginning, the reference library forgets it, and so do we.
void append_changes(std::string_view text, size_t num_old, std::vector<Change>& changes) {
  size_t num_new = 0;
  for (size_t at = 0; at < text.size(); ++num_new) {
    const CodePoint point = code_point_at(text, at);
    changes.push_back({point.code, num_new < num_old ? 0 : 1});
    at += point.bytes;
  }
  if (num_new < num_old && !changes.empty()) {
    changes.back().change -= static_cast<int32_t>(num_old - num_new);
  }
}

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {
    for (size_t byte = 0; byte < changes_.size(); ++byte) {
      const char c = static_cast<char>(byte);
      changes_[byte] = map_.find({&c, 1}).has_value();
    }
    changes_['\r'] = changes_['\r'] || map_.find("\r\n").has_value();
  }

  void apply(TextPiece& piece) const override {
    const std::string& text = piece.text;
    if (!may_change(text)) return;
    std::vector<Change> changes;
    changes.reserve(text.size());
    bool is_changed = false;
    for (size_t at = 0; at < text.size();) {
      const size_t end = end_of_cluster(text, at);
      is_changed |= apply_to(std::string_view(text).substr(at, end - at), changes);
      at = end;
    }
    if (is_changed) piece.transform(changes, 0);
  }

  // CR and LF are the only cluster of several characters in ASCII.
  [[nodiscard]] bool may_change(std::string_view text) const override {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= changes_.size() || changes_[byte]) return true;
    }
    return false;
  }

 private:
  // A short cluster is looked up whole first, then each character of it.
  bool apply_to(std::string_view cluster, std::vector<Change>& changes) const {
    if (cluster.size() <= Charsmap::kMostBytes) {
      if (const auto found = map_.find(cluster)) {
        append_changes(*found, count_code_points(cluster), changes);
        return true;
      }
    }
    bool is_changed = false;
    for (size_t at = 0; at < cluster.size();) {
      const CodePoint point = code_point_at(cluster, at);
      if (const auto found = map_.find(cluster.substr(at, point.bytes))) {
        append_changes(*found, 1, changes);
        is_changed = true;
      } else {
        changes.push_back({point.code, 0});
      }
      at += point.bytes;
    }
    return is_changed;
  }

  Charsmap map_;
  std::array<bool, 128> changes_{};  // ASCII that the map changes
};

}  // namespace

std::unique_ptr<const Normalizer> read_precompiled(const JsonPlace& place) {
  const JsonPlace map = place.at("precompiled_charsmap");
  const std::optional<std::string> bytes = bytes_of_base64(map.text());
  if (!bytes) map.fail("expected base64 with padding");
  try {
    return std::make_unique<Precompiled>(Charsmap(*bytes));
  } catch (const ConfigError& error) {
    map.fail(error.what());
  }
}

}  // namespace tessera
