#include "watch/bounded_lines.h"

#include <streambuf>

namespace tessera {

bool BoundedLines::next() {
  using Traits = std::streambuf::traits_type;
  std::streambuf& bytes = *in_.rdbuf();
  text_.clear();
  too_long_ = ended_ = false;
  bool any = false;
  for (auto c = bytes.sbumpc(); !Traits::eq_int_type(c, Traits::eof()); c = bytes.sbumpc()) {
    any = true;
    if (c == '\n') {
      ended_ = true;
      break;
    }
    if (text_.size() < kLongest) {
      text_ += Traits::to_char_type(c);
    } else {
      too_long_ = true;
    }
  }
  if (any) ++number_;
  if (too_long_) text_.clear();
  return any;
}

}  // namespace tessera
