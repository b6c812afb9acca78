// The last gate before a terminal, a pipe or a log: text that came from a file, the network or the
// command line leaves the program with printable() applied, whoever wrote it.
#pragma once

#include <ostream>
#include <span>
#include <streambuf>
#include <string>
#include <string_view>

namespace tessera {

// Passes on what is written, made printable. A character may come in several pieces.
class PrintableBuffer : public std::streambuf {
 public:
  // `own` are sequences of this program, such as colors, that pass as they are when they come in
  // one piece. Both must outlive this.
  explicit PrintableBuffer(std::streambuf& to, std::span<const std::string_view> own = {})
      : to_(to), own_(own) {}
  ~PrintableBuffer() override;
  PrintableBuffer(const PrintableBuffer&) = delete;
  PrintableBuffer& operator=(const PrintableBuffer&) = delete;

 protected:
  int_type overflow(int_type byte) override;
  std::streamsize xsputn(const char* bytes, std::streamsize count) override;
  int sync() override;

 private:
  [[nodiscard]] std::string filtered(std::string_view text);

  std::streambuf& to_;
  std::span<const std::string_view> own_;
  std::string begun_;  // a character whose end is still to come
};

class PrintableStream : public std::ostream {
 public:
  explicit PrintableStream(std::ostream& to, std::span<const std::string_view> own = {})
      : std::ostream(nullptr), buffer_(*to.rdbuf(), own) {
    rdbuf(&buffer_);
  }

 private:
  PrintableBuffer buffer_;
};

}  // namespace tessera
