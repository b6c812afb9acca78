// What one thread of `data prepare` encodes at a time, and how inputs are cut into such units. The
// cuts depend on the inputs alone, not on threads: so does what is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/byte_source.h"

namespace tessera {

struct PrepareInput {
  std::string path;
  int64_t bytes = 0;
  int64_t changed_ns = 0;  // when, by the file system
};

// A place in the inputs at which a unit ends and the next begins.
struct InputPlace {
  int64_t file = 0;
  int64_t byte = 0;  // of the unpacked text
  int64_t line = 1;
  bool in_document = false;    // the document goes on
  uint64_t document_hash = 0;  // of the document that goes on
};

struct DocumentPiece {
  size_t begin = 0, end = 0;        // of the unit's text
  bool begins = true, ends = true;  // a document
  uint64_t hash = 0;                // of the document, where it goes on in the next piece
};

struct WorkUnit {
  int64_t number = 0;
  InputPlace from, to;
  int64_t packed_bytes = 0;  // read of all inputs once this unit is done
  std::string text;
  bool is_lines = false;              // JSON lines: whole ones
  std::vector<DocumentPiece> pieces;  // else
  int64_t long_line = 0;  // the line after those of the text, which was too long; 0: none
};

// A text without blanks needs about sixty times its size to be encoded.
inline constexpr size_t kMostPieceBytes = size_t{256} << 10;
inline constexpr size_t kMostLineBytes = size_t{16} << 20;

class UnitReader {
 public:
  // `separator` between the documents of a text file; empty: a file is one document. Begins at
  // `from`. Throws ConfigError for an input that changed since it was listed.
  UnitReader(std::vector<PrepareInput> inputs, std::string separator, InputPlace from);

  // None: all was read. Throws what ByteSource does.
  std::optional<WorkUnit> next();

 private:
  bool open_next();
  bool fill(size_t wanted);
  [[nodiscard]] size_t buffered() const { return buffer_.size() - at_; }
  void consume(size_t bytes);
  void read_text(WorkUnit& unit);
  void read_lines(WorkUnit& unit);
  void skip_line();

  std::vector<PrepareInput> inputs_;
  std::string separator_;
  InputPlace place_;
  int64_t number_ = 0;
  int64_t packed_before_ = 0;  // of the files before this one
  std::unique_ptr<ByteSource> source_;
  bool is_lines_ = false;
  bool at_end_ = false;
  std::string buffer_;
  size_t at_ = 0;
};

// .jsonl, .ndjson and .json, also packed, are JSON lines; all others are text.
bool has_json_lines(const std::filesystem::path& path);

// Where a text of more than a piece is cut, which `text` is the beginning of.
size_t cut_of_piece(std::string_view text);

// What decides about a document: its text, of which kMostPieceBytes at most.
uint64_t document_hash(std::string_view text);

}  // namespace tessera
