// What one thread of `data prepare` encodes at a time, and how inputs are cut into such units. The
// cuts depend on the inputs alone, not on threads: so does what is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/byte_buffer.h"
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
  int64_t byte = 0;            // of the unpacked text
  bool in_document = false;    // the document goes on
  uint64_t document_hash = 0;  // of the document that goes on
};

struct UnitLimits {
  size_t unit_bytes = size_t{512} << 10;  // of text, but for a line of JSON that is longer
  size_t line_bytes = size_t{16} << 20;   // of a line of JSON; a longer one is left out
  // Encoded at once. A text without blanks needs sixty times as much memory meanwhile.
  size_t piece_bytes = size_t{64} << 10;
};

// Whole documents, or a part of one; whole lines of JSON.
struct WorkUnit {
  int64_t number = 0;
  InputPlace from, to;
  int64_t packed_bytes = 0;  // read of all inputs once this unit is done
  ByteBuffer text;
  bool is_lines = false;       // of JSON
  bool has_long_line = false;  // after those of the text: one that is left out
};

class UnitReader {
 public:
  // `separator` between the documents of a text file; empty: a file is one document. Begins at
  // `from`. Throws ConfigError for an input that changed since it was listed.
  UnitReader(std::vector<PrepareInput> inputs, std::string separator, InputPlace from,
             UnitLimits limits);

  // Fills `unit`, whose memory is used again. False: all was read. Throws what ByteSource does.
  bool next(WorkUnit& unit);

 private:
  bool open_next();
  void fill(ByteBuffer& text, size_t wanted);
  size_t read_text(WorkUnit& unit);
  size_t read_lines(WorkUnit& unit);
  size_t skip_line(ByteBuffer& text);

  std::vector<PrepareInput> inputs_;
  std::string separator_;
  InputPlace place_;
  UnitLimits limits_;
  int64_t number_ = 0;
  int64_t packed_before_ = 0;  // of the files before this one
  std::unique_ptr<ByteSource> source_;
  bool is_lines_ = false;
  bool at_end_ = false;  // of the source
  ByteBuffer rest_;      // read, but not of the last unit
};

// .jsonl, .ndjson and .json, also packed, are JSON lines; all others are text.
bool has_json_lines(const std::filesystem::path& path);

// Where a text of more than a piece is cut, which `text` is the beginning of: at least half of it.
size_t cut_of_piece(std::string_view text);

// What decides about a document: the beginning of its text.
uint64_t document_hash(std::string_view text);

}  // namespace tessera
