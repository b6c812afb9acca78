#include "data/prepare/work_unit.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text/text.h"

namespace tessera {
namespace {

constexpr size_t kMostHashedBytes = size_t{256} << 10;
constexpr size_t kLeastUnitBytes = 64;
constexpr std::string_view kMark = "\xef\xbb\xbf";  // that some programs put before UTF-8

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

size_t last_of(std::string_view text, char c) {
  const void* found = text.empty() ? nullptr : ::memrchr(text.data(), c, text.size());
  return found == nullptr ? text.npos
                          : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

// Where the last occurrence of `wanted` begins.
size_t last_of(std::string_view text, std::string_view wanted) {
  for (size_t end = text.size(); end >= wanted.size();) {
    const size_t last = last_of(text.substr(0, end), wanted.back());
    if (last == text.npos || last + 1 < wanted.size()) break;
    const size_t begin = last + 1 - wanted.size();
    if (text.substr(begin, wanted.size()) == wanted) return begin;
    end = last;
  }
  return text.npos;
}

// The end of the last separator, as if they were looked for from the beginning of the text: three
// newlines are one "\n\n" and the first byte of what follows it. npos: there is none.
size_t end_of_last(std::string_view text, std::string_view separator) {
  if (separator.empty()) return text.npos;
  size_t begin = last_of(text, separator);
  if (begin == text.npos) return begin;
  const size_t overlap = separator.size() - 1;
  // Back to one that none before it reaches into.
  while (begin > 0 && overlap > 0) {
    const size_t from = begin - std::min(begin, overlap);
    const size_t before =
        last_of(text.substr(from, begin - 1 + separator.size() - from), separator);
    if (before == text.npos) break;
    begin = from + before;
  }
  size_t end = begin;
  for (; begin != text.npos; begin = text.find(separator, end)) end = begin + separator.size();
  return end;
}

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

uint64_t document_hash(std::string_view text) {
  return hash_name(text.substr(0, kMostHashedBytes));
}

UnitReader::UnitReader(std::vector<PrepareInput> inputs, std::string separator, InputPlace from,
                       UnitLimits limits)
    : inputs_(std::move(inputs)), separator_(std::move(separator)), place_(from), limits_(limits) {
  TESSERA_CHECK(limits.unit_bytes >= kLeastUnitBytes && limits.piece_bytes >= kLeastUnitBytes,
                "units of {} bytes in pieces of {}", limits.unit_bytes, limits.piece_bytes);
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
  rest_.set_size(0);
  for (int64_t left = place_.byte; left > 0;) {
    const auto some = std::min(static_cast<size_t>(left), limits_.unit_bytes);
    rest_.set_size(0);
    fill(rest_, some);
    require_config(rest_.size() == some,
                   "'{}' ends before byte {}, where the work stopped: start over with --overwrite",
                   input.path, place_.byte);
    left -= static_cast<int64_t>(some);
  }
  rest_.set_size(0);
  if (place_.byte == 0) {
    fill(rest_, kMark.size());
    if (rest_.text() == kMark) {
      rest_.set_size(0);
      place_.byte = std::ssize(kMark);
    }
  }
  return true;
}

// Until so many bytes are there, or the file ends.
void UnitReader::fill(ByteBuffer& text, size_t wanted) {
  if (at_end_ || text.size() >= wanted) return;
  if (wanted > text.capacity()) text.reserve(std::max(wanted, text.capacity() * 3 / 2));
  const size_t missing = wanted - text.size();
  const size_t count = source_->read({text.data() + text.size(), missing});
  text.set_size(text.size() + count);
  at_end_ = count < missing;
}

bool UnitReader::next(WorkUnit& unit) {
  if (source_ == nullptr && !open_next()) return false;
  unit.number = number_++;
  unit.from = place_;
  unit.is_lines = is_lines_;
  unit.has_long_line = false;
  unit.text.set_size(0);
  // At once for all that it will hold, so that it does not grow.
  unit.text.reserve(limits_.unit_bytes + separator_.size());
  unit.text.append(rest_.text());
  const size_t used = is_lines_ ? read_lines(unit) : read_text(unit);
  rest_.set_size(0);
  rest_.append(unit.text.text().substr(used));
  unit.text.set_size(used);
  if (unit.has_long_line) unit.text.reset(2 * limits_.unit_bytes);
  place_.byte += static_cast<int64_t>(used);
  unit.packed_bytes = packed_before_ + source_->bytes_read();
  if (rest_.size() == 0) fill(rest_, 1);  // does the file go on?
  if (rest_.size() == 0) {
    packed_before_ += inputs_[static_cast<size_t>(place_.file)].bytes;
    place_ = {.file = place_.file + 1};
    source_.reset();
  }
  unit.to = place_;
  return true;
}

// To the end of the last document that is there whole; where there is none, a part of one.
size_t UnitReader::read_text(WorkUnit& unit) {
  fill(unit.text, limits_.unit_bytes + separator_.size());
  const std::string_view text = unit.text.text();
  const size_t end = at_end_ ? text.size() : end_of_last(text, separator_);
  if (end != text.npos) {
    place_.in_document = false;
    return end;
  }
  // Before the last bytes, where a separator may begin.
  const size_t cut = cut_of_piece(text.substr(0, limits_.unit_bytes));
  if (!place_.in_document) place_.document_hash = document_hash(text.substr(0, cut));
  place_.in_document = true;
  return cut;
}

size_t UnitReader::read_lines(WorkUnit& unit) {
  for (size_t wanted = limits_.unit_bytes;; wanted += limits_.unit_bytes) {
    fill(unit.text, wanted);
    const std::string_view text = unit.text.text();
    if (text.size() > limits_.line_bytes &&
        std::min(text.find('\n'), text.size() - 1) >= limits_.line_bytes) {
      unit.has_long_line = true;
      return skip_line(unit.text);
    }
    if (at_end_) return text.size();
    if (const size_t last = last_of(text, '\n'); last != text.npos) return last + 1;
  }
}

// The end of the line that `text` begins with, in what is there of it then.
size_t UnitReader::skip_line(ByteBuffer& text) {
  while (true) {
    const size_t end = text.text().find('\n');
    if (end != std::string_view::npos) return end + 1;
    if (at_end_) return text.size();
    place_.byte += static_cast<int64_t>(text.size());
    text.set_size(0);
    fill(text, limits_.unit_bytes);
  }
}

}  // namespace tessera
