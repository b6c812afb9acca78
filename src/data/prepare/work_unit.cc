#include "data/prepare/work_unit.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr size_t kUnitBytes = size_t{256} << 10;
constexpr size_t kReadBytes = size_t{256} << 10;
constexpr size_t kAheadBytes = size_t{1} << 20;
constexpr std::string_view kMark = "\xef\xbb\xbf";  // that some programs put before UTF-8

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

}  // namespace

// After a line that a word follows; else before a blank that begins a word; else between two
// characters.
size_t cut_of_piece(std::string_view text) {
  for (size_t i = text.size() - 1; i > text.size() / 2; --i) {
    if (text[i - 1] == '\n' && !is_blank(text[i])) return i;
  }
  for (size_t i = text.size() - 1; i > text.size() / 2; --i) {
    if (text[i] == ' ' && !is_blank(text[i - 1])) return i;
  }
  size_t end = text.size() - 1;
  for (int i = 0; i < 3 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80; ++i) --end;
  return end;
}

bool has_json_lines(const std::filesystem::path& path) {
  const std::string whole = lower_case(path.filename().string());
  std::string_view name = whole;
  for (const std::string_view packed : {".gz", ".zst"}) {
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  }
  return name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json");
}

uint64_t document_hash(std::string_view text) { return hash_name(text.substr(0, kMostPieceBytes)); }

UnitReader::UnitReader(std::vector<PrepareInput> inputs, std::string separator, InputPlace from)
    : inputs_(std::move(inputs)), separator_(std::move(separator)), place_(from) {
  for (int64_t i = 0; i < std::min(from.file, std::ssize(inputs_)); ++i) {
    packed_before_ += inputs_[static_cast<size_t>(i)].bytes;
  }
}

// The file of place_, from its byte on; false: there is none left.
bool UnitReader::open_next() {
  if (place_.file >= std::ssize(inputs_)) return false;
  const PrepareInput& input = inputs_[static_cast<size_t>(place_.file)];
  struct stat facts = {};
  const bool same = ::stat(input.path.c_str(), &facts) == 0 && facts.st_size == input.bytes;
  require_config(same, "'{}' changed while it was read: start over with --overwrite", input.path);
  source_ = open_bytes(input.path);
  is_lines_ = has_json_lines(input.path);
  at_end_ = false;
  buffer_.clear();
  at_ = 0;
  for (int64_t skipped = 0; skipped < place_.byte;) {
    const int64_t some = std::min<int64_t>(place_.byte - skipped, kReadBytes);
    require_config(fill(static_cast<size_t>(some)),
                   "'{}' ends before byte {}, where the work stopped: start over with --overwrite",
                   input.path, place_.byte);
    at_ += static_cast<size_t>(some);
    skipped += some;
  }
  if (place_.byte == 0 && fill(kMark.size()) && std::string_view(buffer_).starts_with(kMark)) {
    consume(kMark.size());
  }
  return true;
}

// Until so many bytes are there; false: the file ends before.
bool UnitReader::fill(size_t wanted) {
  if (buffered() >= wanted || at_end_) return buffered() >= wanted;
  buffer_.erase(0, at_);
  at_ = 0;
  // Ahead of what is wanted, so that the rest is not moved for every document.
  while (buffer_.size() < wanted + kAheadBytes && !at_end_) {
    const size_t before = buffer_.size();
    buffer_.resize(before + kReadBytes);
    const size_t count = source_->read({buffer_.data() + before, kReadBytes});
    buffer_.resize(before + count);
    at_end_ = count < kReadBytes;
  }
  return buffer_.size() >= wanted;
}

void UnitReader::consume(size_t bytes) {
  at_ += bytes;
  place_.byte += static_cast<int64_t>(bytes);
}

std::optional<WorkUnit> UnitReader::next() {
  if (source_ == nullptr && !open_next()) return std::nullopt;
  WorkUnit unit;
  unit.number = number_++;
  unit.from = place_;
  unit.is_lines = is_lines_;
  is_lines_ ? read_lines(unit) : read_text(unit);
  unit.packed_bytes = packed_before_ + source_->bytes_read();
  if (!fill(1)) {
    packed_before_ += inputs_[static_cast<size_t>(place_.file)].bytes;
    place_ = {.file = place_.file + 1};
    source_.reset();
  }
  unit.to = place_;
  return unit;
}

void UnitReader::read_text(WorkUnit& unit) {
  while (unit.text.size() < kUnitBytes) {
    const bool more = fill(kMostPieceBytes + separator_.size() + 1);
    const std::string_view rest = std::string_view(buffer_).substr(at_);
    if (rest.empty()) break;
    DocumentPiece piece{.begin = unit.text.size(), .begins = !place_.in_document};
    const size_t found = separator_.empty() ? rest.npos : rest.find(separator_);
    size_t used = 0;
    if (found <= kMostPieceBytes) {  // npos is more
      unit.text += rest.substr(0, found);
      used = found + separator_.size();
    } else if (!more && rest.size() <= kMostPieceBytes) {
      unit.text += rest;
      used = rest.size();
    } else {
      used = cut_of_piece(rest.substr(0, kMostPieceBytes));
      unit.text += rest.substr(0, used);
      piece.ends = false;
    }
    piece.end = unit.text.size();
    if (piece.begins && !piece.ends) place_.document_hash = document_hash(rest);
    piece.hash = place_.document_hash;
    place_.in_document = !piece.ends;
    unit.pieces.push_back(piece);
    consume(used);
  }
}

void UnitReader::read_lines(WorkUnit& unit) {
  size_t searched = 0;
  while (unit.text.size() < kUnitBytes && fill(1)) {
    const size_t end = buffer_.find('\n', at_ + searched);
    if (end == std::string::npos && buffered() <= kMostLineBytes && !at_end_) {
      searched = buffered();
      fill(searched + 1);
      continue;
    }
    searched = 0;
    const size_t size = end == std::string::npos ? buffered() : end + 1 - at_;
    if (size > kMostLineBytes) {
      unit.long_line = place_.line;
      skip_line();
      return;
    }
    unit.text.append(buffer_, at_, size);
    consume(size);
    ++place_.line;
  }
}

void UnitReader::skip_line() {
  while (fill(1)) {
    const size_t end = buffer_.find('\n', at_);
    consume(end == std::string::npos ? buffered() : end + 1 - at_);
    if (end != std::string::npos) break;
  }
  ++place_.line;
}

}  // namespace tessera
