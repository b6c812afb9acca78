// JSON from untrusted files, read as a stream of events: nothing is built that the reader did not
// ask for, and duplicate keys are seen.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace tessera {

// `file` is the kind and the path: "weight index 'x'".
[[noreturn]] inline void fail_damaged(const std::string& file, const std::string& reason) {
  throw Error(fmt::format("{} is damaged: {}; download or export it again", file, reason));
}

// Refuses every event; a reader overrides those that its format allows.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Strict: one value, valid UTF-8, nothing after it but white space.
  void parse(std::string_view text) {
    // The lexer takes a zero byte for the end of its input, which would hide what follows.
    const size_t zero = text.find('\0');
    if (zero != std::string_view::npos) fail(fmt::format("its JSON has a zero byte at {}", zero));
    nlohmann::json::sax_parse(text.begin(), text.end(), this);
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool /*value*/) override { return unexpected("a boolean"); }
  bool number_integer(int64_t /*value*/) override { return unexpected("a negative number"); }
  bool number_unsigned(uint64_t /*value*/) override { return unexpected("a number"); }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    return unexpected("a fraction or a number above 2^64");
  }
  bool string(std::string& /*value*/) override { return unexpected("a string"); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return unexpected("binary data"); }
  bool start_object(size_t /*size*/) override { return unexpected("an object"); }
  bool start_array(size_t /*size*/) override { return unexpected("an array"); }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*error*/) override {
    fail("its JSON is not valid near byte " + std::to_string(position));
  }

 protected:
  explicit JsonEvents(std::string file) : file_(std::move(file)) {}

  [[noreturn]] void fail(const std::string& reason) const { fail_damaged(file_, reason); }
  // What is being read, for messages: 'tensor "a.weight"'.
  [[nodiscard]] virtual std::string place() const = 0;

  [[noreturn]] bool unexpected(std::string_view what) const {
    fail(fmt::format("{} has {} where none may be", place(), what));
  }

 private:
  std::string file_;
};

}  // namespace tessera
