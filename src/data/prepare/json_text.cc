#include "data/prepare/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text/text.h"

namespace tessera {
namespace {

// Events of the parser; no value is kept but the one.
class TextFinder final : public nlohmann::json::json_sax_t {
 public:
  TextFinder(std::string_view wanted, std::string& text) : wanted_(wanted), text_(text) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("true or false"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary"); }
  bool string(string_t& value) override {
    if (!is_wanted()) return other("a text");
    text_.swap(value);
    found_ = true;
    here_ = false;
    return true;
  }
  bool start_object(size_t) override {
    if (!other("an object")) return false;
    ++depth_;
    return true;
  }
  bool key(string_t& name) override {
    here_ = depth_ == 1 && name == wanted_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(size_t) override {
    if (!other("a list")) return false;
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t byte, const std::string&,
                   const nlohmann::json::exception& error) override {
    const std::string_view said = error.what();
    const std::string_view why = said.find("surrogate") != said.npos ? ": half of a surrogate pair"
                                 : said.find("UTF-8") != said.npos   ? ": no UTF-8"
                                                                     : "";
    if (wrong_.empty()) wrong_ = fmt::format("is no JSON (byte {}{})", byte, why);
    return false;
  }

  [[nodiscard]] std::string wrong() const {
    if (!wrong_.empty() || found_) return wrong_;
    return fmt::format("has no \"{}\": name another with --key", wanted_);
  }

 private:
  [[nodiscard]] bool is_wanted() const { return here_; }
  // A value that is not the text; false where the text should be.
  bool other(std::string_view kind) {
    if (depth_ == 0 && kind != "an object") wrong_ = fmt::format("is {}, not an object", kind);
    if (here_) wrong_ = fmt::format("has {} under \"{}\", not a text", kind, wanted_);
    return wrong_.empty();
  }

  std::string_view wanted_;
  std::string& text_;
  std::string wrong_;
  int64_t depth_ = 0;
  bool here_ = false;  // the next value is that of the key
  bool found_ = false;
};

}  // namespace

std::string json_text(std::string_view line, std::string_view key, std::string& text) {
  // What a file begins with that is one list, or is written for people to read.
  const std::string_view all = trim(line);
  if (all == "[" || all == "{" || all == "[{") {
    return "begins a value that goes on in the next: write every object in one line (jq -c '.[]' "
           "for "
           "a list)";
  }
  TextFinder finder(key, text);
  nlohmann::json::sax_parse(line, &finder);
  return finder.wrong();
}

}  // namespace tessera
