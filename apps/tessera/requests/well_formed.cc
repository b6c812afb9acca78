#include "requests/well_formed.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

namespace tessera::testing {
namespace {

constexpr double kLargest = 1e290;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string around(std::string_view text, size_t at) {
  const size_t from = at < 30 ? 0 : at - 30;
  return std::string(text.substr(from, 80));
}

// The name at `at`, letters and what names may hold.
std::string_view name_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && (is_word(text[end]) || text[end] == '-' || text[end] == ':')) ++end;
  return text.substr(at, end - at);
}

bool is_entity(std::string_view text, size_t at) {
  const size_t end = text.find(';', at);
  return end != std::string_view::npos && end - at >= 2 && end - at <= 8;
}

// Where the tag that begins at `at` ends, or npos with `wrong` set.
size_t end_of_tag(std::string_view text, size_t at, std::string& wrong) {
  char quote = 0;
  for (size_t i = at + 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<') break;
    if (quote != 0) {
      if (c == quote) quote = 0;
      if (c == '&' && !is_entity(text, i)) break;
    } else if (c == '"' || c == '\'') {
      if (text[i - 1] != '=') break;
      quote = c;
    } else if (c == '>') {
      return i;
    }
  }
  wrong = fmt::format("a tag that does not end: {}", around(text, at));
  return std::string_view::npos;
}

void find_null(const nlohmann::json& json, const std::string& path, std::string& found) {
  if (json.is_null()) found = path;
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) find_null(value, path + "/" + key, found);
}

}  // namespace

std::string bad_number_in(std::string_view text) {
  constexpr std::array<std::string_view, 4> kWords = {"nan", "inf", "infinity", "NaN"};
  for (size_t at = 0; at < text.size(); ++at) {
    const char before = at > 0 ? text[at - 1] : ' ';
    // A color is no number.
    if (!is_word(text[at]) || is_word(before) || before == '.' || before == '#') continue;
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    for (const std::string_view bad : kWords) {
      // In quotes it is a name that was given.
      if (word == bad && before != '"') return fmt::format("{} in: {}", bad, around(text, at));
    }
    if (std::isdigit(static_cast<unsigned char>(text[at])) == 0) continue;
    const std::string number(text.substr(at, 400));
    char* stop = nullptr;
    const double value = std::strtod(number.c_str(), &stop);
    // We write exponents with a sign, which digests do not have; a value that was refused is told
    // before a colon.
    const bool signed_exponent = number.find("e+") < static_cast<size_t>(stop - number.c_str());
    if (value > kLargest && signed_exponent && *stop != ':') {
      return fmt::format("a huge number: {}", around(text, at));
    }
    const bool begins =
        before == '-' && (at == 1 || (!is_word(text[at - 2]) && text[at - 2] != '-'));
    const char next = *stop;
    if (value == 0 && begins && !is_word(next) && next != '-') {
      return fmt::format("a negative zero: {}", around(text, at));
    }
  }
  return "";
}

std::string why_no_xml(std::string_view text) {
  std::vector<std::string_view> open;
  bool has_root = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '&' && !is_entity(text, at)) return "a bare &: " + around(text, at);
    if (text[at] != '<') continue;
    std::string wrong;
    const size_t end = end_of_tag(text, at, wrong);
    if (!wrong.empty()) return wrong;
    if (text[at + 1] == '?' || text[at + 1] == '!') {
      at = end;
      continue;
    }
    const bool closes = text[at + 1] == '/';
    const std::string_view name = name_at(text, at + (closes ? 2 : 1));
    if (name.empty()) return "a tag without a name: " + around(text, at);
    if (closes && (open.empty() || open.back() != name)) {
      return "a tag that was not opened: " + around(text, at);
    }
    if (open.empty() && has_root) return "a second root: " + around(text, at);
    has_root = true;
    if (closes) {
      open.pop_back();
    } else if (text[end - 1] != '/') {
      open.push_back(name);
    }
    at = end;
  }
  if (!open.empty()) return fmt::format("{} is not closed", open.back());
  return has_root ? "" : "nothing in it";
}

std::string why_no_json(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return "no JSON: " + std::string(text.substr(0, 200));
  std::string found;
  find_null(json, "", found);
  return found.empty() ? "" : "null at " + found;
}

}  // namespace tessera::testing
