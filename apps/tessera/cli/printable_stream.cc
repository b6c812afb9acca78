#include "cli/printable_stream.h"

#include <algorithm>

#include "base/text/printable.h"

namespace tessera {
namespace {

bool is_plain(char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\t'; }

}  // namespace

PrintableBuffer::~PrintableBuffer() {
  const std::string rest = printable(begun_);
  to_.sputn(rest.data(), static_cast<std::streamsize>(rest.size()));
}

std::string PrintableBuffer::filtered(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto odd = std::find_if_not(text.begin(), text.end(), is_plain);
    const auto plain = static_cast<size_t>(odd - text.begin());
    shown += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const auto own = std::find_if(own_.begin(), own_.end(),
                                  [&](std::string_view word) { return text.starts_with(word); });
    if (own != own_.end()) {
      shown += *own;
      text.remove_prefix(own->size());
      continue;
    }
    const Character character = first_character(text);
    if (character.cut_off) {
      begun_ = text;
      break;
    }
    shown += printable(text.substr(0, character.bytes));
    text.remove_prefix(character.bytes);
  }
  return shown;
}

std::streamsize PrintableBuffer::xsputn(const char* bytes, std::streamsize count) {
  std::string_view text(bytes, static_cast<size_t>(count));
  const std::string joined = begun_.empty() ? "" : begun_ + std::string(text);
  if (!begun_.empty()) text = joined;
  begun_.clear();
  const std::string shown = filtered(text);
  const auto size = static_cast<std::streamsize>(shown.size());
  return to_.sputn(shown.data(), size) == size ? count : 0;
}

PrintableBuffer::int_type PrintableBuffer::overflow(int_type byte) {
  if (traits_type::eq_int_type(byte, traits_type::eof())) return traits_type::not_eof(byte);
  const char c = traits_type::to_char_type(byte);
  return xsputn(&c, 1) == 1 ? byte : traits_type::eof();
}

int PrintableBuffer::sync() { return to_.pubsync(); }

}  // namespace tessera
