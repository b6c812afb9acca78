#include "data/prepare/encode_unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/philox.h"
#include "base/text/text.h"
#include "data/prepare/json_text.h"
#include "data/set/block_sums.h"

namespace tessera {
namespace {

class UnitEncoder {
 public:
  UnitEncoder(const WorkUnit& unit, const EncodeOptions& options, TokenEncoder& encoder,
              const std::function<void(size_t)>& room_for, EncodedUnit& encoded)
      : unit_(unit),
        options_(options),
        encoder_(encoder),
        room_for_(room_for),
        encoded_(encoded),
        token_bytes_(static_cast<size_t>(bytes_of(options.type))) {
    for (EncodedTokens& set : encoded_.sets) {
      set.tokens.set_size(0);
      set.ends.clear();
      set.largest_id = 0;
    }
    encoded_.bad.clear();
    encoded_.num_lines = encoded_.num_empty = 0;
    encoded_.failure = nullptr;
  }

  void run() {
    unit_.is_lines ? encode_lines() : encode_text();
    for (EncodedTokens& set : encoded_.sets) set.crc32 = crc32_of(set.tokens.bytes());
  }

 private:
  void encode_text() {
    std::string_view rest = unit_.text.text();
    bool begins = !unit_.from.in_document;
    const std::string& separator = options_.separator;
    while (!separator.empty()) {
      const size_t found = rest.find(separator);
      if (found == rest.npos) break;
      encode_document(rest.substr(0, found), begins, /*ends=*/true);
      rest.remove_prefix(found + separator.size());
      begins = true;
    }
    const bool ends = !unit_.to.in_document;
    TESSERA_CHECK(rest.empty() || !ends || unit_.to.file != unit_.from.file,
                  "unit {} ends {} bytes after its last document", unit_.number, rest.size());
    if (!rest.empty() || !begins) encode_document(rest, begins, ends);
  }

  void encode_lines() {
    std::string_view rest = unit_.text.text();
    std::string text;
    for (; !rest.empty(); ++encoded_.num_lines) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view one = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (trim(one).empty()) continue;
      const std::string wrong = json_text(one, options_.key, text);
      if (!wrong.empty()) {
        encoded_.bad.push_back({encoded_.num_lines, wrong});
      } else {
        encode_document(text, /*begins=*/true, /*ends=*/true);
      }
    }
    if (!unit_.has_long_line) return;
    encoded_.bad.push_back(
        {encoded_.num_lines++,
         fmt::format("has more than {} bytes: split it",
                     with_thousands(static_cast<int64_t>(options_.limits.line_bytes)))});
  }

  // `text` is the part that is here, where the document goes on in another unit.
  void encode_document(std::string_view text, bool begins, bool ends) {
    if (begins && ends && text.empty()) {
      ++encoded_.num_empty;
      return;
    }
    EncodedTokens& set = encoded_.sets[is_set_apart(text, begins, ends) ? 1 : 0];
    while (text.size() > options_.limits.piece_bytes) {
      const size_t end = cut_of_piece(text.substr(0, options_.limits.piece_bytes));
      encode_piece(text.substr(0, end), begins, false, set);
      text.remove_prefix(end);
      begins = false;
    }
    encode_piece(text, begins, ends, set);
  }

  [[nodiscard]] bool is_set_apart(std::string_view text, bool begins, bool ends) const {
    if (options_.valid <= 0) return false;
    const uint64_t hash = !begins ? unit_.from.document_hash
                          : !ends ? unit_.to.document_hash
                                  : document_hash(text);
    return is_for_validation(hash, options_.valid, options_.seed);
  }

  void encode_piece(std::string_view text, bool begins, bool ends, EncodedTokens& set) {
    ids_.clear();
    encoder_.encode(text, options_.add_special && begins, ids_);
    // Some tokenizers end a text themselves.
    const bool ended =
        options_.add_special && begins && !ids_.empty() && ids_.back() == options_.end_token;
    if (ended && !ends) ids_.pop_back();
    if (!ended && ends) ids_.push_back(options_.end_token);
    int32_t least = 0;
    for (const int32_t id : ids_) {
      least = std::min(least, id);
      set.largest_id = std::max(set.largest_id, id);
    }
    TESSERA_CHECK(least >= 0, "id {}", least);
    token_bytes_ == 2 ? append<uint16_t>(set.tokens) : append<uint32_t>(set.tokens);
    if (ends) set.ends.push_back(static_cast<uint32_t>(set.tokens.size() / token_bytes_));
  }

  template <typename T>
  void append(ByteBuffer& tokens) {
    const size_t size = tokens.size() + ids_.size() * sizeof(T);
    if (size > tokens.capacity()) grow(tokens, size);
    char* to = tokens.data() + tokens.size();
    for (const int32_t id : ids_) {
      const T narrowed = static_cast<T>(id);
      std::memcpy(to, &narrowed, sizeof(T));
      to += sizeof(T);
    }
    tokens.set_size(size);
  }

  void grow(ByteBuffer& tokens, size_t size) {
    // Enough for most texts at once.
    const size_t capacity = std::max({size, 2 * tokens.capacity(), options_.limits.unit_bytes});
    size_t all = capacity;
    for (const EncodedTokens& set : encoded_.sets) {
      if (&set.tokens != &tokens) all += set.tokens.capacity();
    }
    room_for_(all);
    tokens.reserve(capacity);
  }

  const WorkUnit& unit_;
  const EncodeOptions& options_;
  TokenEncoder& encoder_;
  const std::function<void(size_t)>& room_for_;
  EncodedUnit& encoded_;
  size_t token_bytes_;
  std::vector<int32_t> ids_;
};

}  // namespace

bool is_for_validation(uint64_t document_hash, double share, uint64_t seed) {
  return share > 0 && uniform_at(seed, document_hash, /*index=*/0) < share;
}

void encode_unit(const WorkUnit& unit, const EncodeOptions& options, TokenEncoder& encoder,
                 const std::function<void(size_t)>& room_for, EncodedUnit& encoded) {
  UnitEncoder(unit, options, encoder, room_for, encoded).run();
}

}  // namespace tessera
