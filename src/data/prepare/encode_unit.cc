#include "data/prepare/encode_unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "base/text/text.h"
#include "data/prepare/json_text.h"

namespace tessera {
namespace {

class UnitEncoder {
 public:
  UnitEncoder(const WorkUnit& unit, const EncodeOptions& options, TokenEncoder& encoder)
      : unit_(unit), options_(options), encoder_(encoder) {
    encoded_.number = unit.number;
    encoded_.from = unit.from;
    encoded_.to = unit.to;
    encoded_.packed_bytes = unit.packed_bytes;
    encoded_.text_bytes = std::ssize(unit.text);
    ids_.reserve(unit.text.size() / 3);
  }

  EncodedUnit run() {
    unit_.is_lines ? encode_lines() : encode_pieces();
    bytes_of(options_.type) == 2 ? narrow<uint16_t>() : narrow<uint32_t>();
    return std::move(encoded_);
  }

 private:
  void encode_pieces() {
    for (const DocumentPiece& piece : unit_.pieces) {
      const std::string_view text =
          std::string_view(unit_.text).substr(piece.begin, piece.end - piece.begin);
      if (piece.begins && piece.ends && text.empty()) {
        ++encoded_.num_empty;
        continue;
      }
      encode(text, piece, piece.begins && piece.ends ? document_hash(text) : piece.hash);
    }
  }

  void encode_lines() {
    std::string_view rest = unit_.text;
    std::string text;
    for (int64_t line = unit_.from.line; !rest.empty(); ++line) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view one = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (trim(one).empty()) continue;
      const std::string wrong = json_text(one, options_.key, text);
      if (!wrong.empty()) {
        encoded_.bad.push_back({line, wrong});
      } else if (text.empty()) {
        ++encoded_.num_empty;
      } else {
        encode_document(text);
      }
    }
    if (unit_.long_line > 0) {
      encoded_.bad.push_back({unit_.long_line, fmt::format("has more than {} bytes: split it",
                                                           with_thousands(kMostLineBytes))});
    }
  }

  // In the pieces in which a text file would be read.
  void encode_document(std::string_view text) {
    const uint64_t hash = document_hash(text);
    bool begins = true;
    while (text.size() > kMostPieceBytes) {
      const size_t end = cut_of_piece(text.substr(0, kMostPieceBytes));
      encode(text.substr(0, end), {.begins = begins, .ends = false}, hash);
      text.remove_prefix(end);
      begins = false;
    }
    encode(text, {.begins = begins, .ends = true}, hash);
  }

  void encode(std::string_view text, const DocumentPiece& piece, uint64_t hash) {
    std::vector<int32_t>& ids = ids_;
    const size_t before = ids.size();
    encoder_.encode(text, options_.add_special && piece.begins, ids);
    // Some tokenizers end a text themselves.
    const bool ended =
        options_.add_special && piece.begins && !ids.empty() && ids.back() == options_.end_token;
    if (ended && !piece.ends) ids.pop_back();
    if (!ended && piece.ends) ids.push_back(options_.end_token);
    int32_t largest = 0;
    for (size_t i = before; i < ids.size(); ++i) {
      TESSERA_CHECK(ids[i] >= 0, "id {}", ids[i]);
      largest = std::max(largest, ids[i]);
    }
    encoded_.pieces.push_back(
        {ids.size(), piece.ends, is_for_validation(hash, options_.valid, options_.seed), largest});
  }

  template <typename T>
  void narrow() {
    encoded_.tokens.resize(ids_.size() * sizeof(T));
    std::byte* to = encoded_.tokens.data();
    for (const int32_t id : ids_) {
      const T narrowed = static_cast<T>(id);
      std::memcpy(to, &narrowed, sizeof(T));
      to += sizeof(T);
    }
  }

  const WorkUnit& unit_;
  const EncodeOptions& options_;
  TokenEncoder& encoder_;
  std::vector<int32_t> ids_;
  EncodedUnit encoded_;
};

}  // namespace

bool is_for_validation(uint64_t document_hash, double share, uint64_t seed) {
  return share > 0 && uniform_at(seed, document_hash, /*index=*/0) < share;
}

EncodedUnit encode_unit(const WorkUnit& unit, const EncodeOptions& options, TokenEncoder& encoder) {
  return UnitEncoder(unit, options, encoder).run();
}

}  // namespace tessera
