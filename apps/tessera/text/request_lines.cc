#include "text/request_lines.h"

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/sha256.h"
#include "base/text/json.h"
#include "base/text/text.h"

namespace tessera {
namespace {

// More than a request may have (serve/api/asked.h).
constexpr std::streamsize kMostLineBytes = std::streamsize{4} << 20;

}  // namespace

RequestLines::RequestLines(const std::string& path)
    : in_(path, std::ios::binary), path_(path), buffer_(kMostLineBytes) {
  std::error_code error;
  require_config(in_.good(), "--in is '{}', which cannot be read: does it exist?", path);
  require_config(!std::filesystem::is_directory(path, error),
                 "--in is '{}', which is a folder: name a file of requests", path);
}

std::optional<RequestLine> RequestLines::next() {
  while (in_.good()) {
    in_.getline(buffer_.data(), kMostLineBytes);
    std::string text(buffer_.data(), static_cast<size_t>(in_.gcount()));
    const bool too_long = in_.fail() && !in_.eof() && std::ssize(text) == kMostLineBytes - 1;
    if (too_long) {
      in_.clear();
      in_.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    // The end of the line counts, where there is one.
    if (!too_long && !text.empty() && text.back() == '\0') text.pop_back();
    if (text.empty() && in_.eof()) break;
    ++number_;
    if (!trim(text).empty()) return RequestLine{number_, std::move(text)};
  }
  if (in_.bad()) throw IoError(fmt::format("'{}' cannot be read any further", path_));
  return std::nullopt;
}

std::string mark_of(const RequestLine& line) { return sha256_hex(line.text).substr(0, 16); }

nlohmann::ordered_json name_of_request(const RequestLine& line) {
  nlohmann::ordered_json named = nlohmann::ordered_json::object();
  try {
    const nlohmann::ordered_json json = parse_ordered_json(line.text, "request");
    for (const char* name : {"id", "custom_id"}) {
      if (!json.is_object() || !json.contains(name)) continue;
      named.clear();
      named[name] = json[name];
    }
  } catch (const ConfigError&) {
    // Whoever reads it for its answer says so.
  }
  return named;
}

nlohmann::ordered_json body_of_request(const RequestLine& line) {
  nlohmann::ordered_json json = parse_ordered_json(line.text, fmt::format("line {}", line.number));
  require_config(json.is_object(),
                 "line {} is no JSON object: {{\"prompt\": \"...\"}} is the shortest", line.number);
  if (json.contains("body") && json["body"].is_object())
    json = nlohmann::ordered_json(json["body"]);
  // All of an answer goes into one line.
  for (const char* name : {"custom_id", "id", "stream", "stream_options"}) json.erase(name);
  return json;
}

std::optional<int64_t> count_requests(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  RequestLines lines(path);
  int64_t count = 0;
  while (lines.next().has_value()) ++count;
  return count;
}

}  // namespace tessera
