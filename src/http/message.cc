#include "http/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/text/printable.h"

namespace tessera::http {
namespace {

constexpr size_t kMostSegments = 16, kMostParameters = 32;

std::optional<char> decode_escape(std::string_view digits) {
  unsigned value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, value, 16);
  if (digits.size() != 2 || error != std::errc() || at != end) return std::nullopt;
  return static_cast<char>(value);
}

// Text that can be shown: no control characters, which also could end a line of a response.
bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!character.valid || character.code < 0x20 || character.code == 0x7f) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

std::optional<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const auto byte = decode_escape(text.substr(i + 1, 2));
      if (!byte.has_value()) return std::nullopt;
      decoded += *byte;
      i += 2;
    } else {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  if (!is_plain_text(decoded)) return std::nullopt;
  return decoded;
}

// Calls `take` with each part between separators; false as soon as it says so.
bool split(std::string_view text, char separator,
           const std::function<bool(std::string_view)>& take) {
  while (true) {
    const size_t end = text.find(separator);
    if (!take(text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

bool add_segment(std::string_view part, std::vector<std::string>& segments) {
  auto segment = decode(part, false);
  if (!segment.has_value() || segments.size() == kMostSegments) return false;
  if (*segment == "." || *segment == ".." || segment->find('/') != std::string::npos) return false;
  segments.push_back(std::move(*segment));
  return true;
}

bool add_parameter(std::string_view part, Words& query) {
  if (part.empty()) return true;
  const size_t equals = part.find('=');
  auto name = decode(part.substr(0, equals), true);
  auto value = equals == std::string_view::npos ? "" : decode(part.substr(equals + 1), true);
  if (!name.has_value() || !value.has_value() || query.size() == kMostParameters) return false;
  query.try_emplace(std::move(*name), std::move(*value));
  return true;
}

bool fits_on_line(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  });
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

}  // namespace

const std::string* Request::field(std::string_view lower_case_name) const {
  for (const auto& [name, value] : fields) {
    if (name == lower_case_name) return &value;
  }
  return nullptr;
}

std::string Request::path() const {
  std::string path;
  for (const std::string& segment : segments) path += "/" + segment;
  return path.empty() ? "/" : path;
}

Response Response::text(int status, std::string_view content_type, std::string body) {
  Response response;
  response.status = status;
  response.fields.emplace_back("Content-Type", content_type);
  response.body = std::move(body);
  return response;
}

Response Response::json(std::string body) { return text(200, "application/json", std::move(body)); }

Response Response::error(int status, std::string_view code, std::string_view message) {
  const nlohmann::ordered_json json = {{"error", {{"code", code}, {"message", message}}}};
  return text(status, "application/json",
              json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::optional<Target> parse_target(std::string_view target) {
  if (target.empty() || target.front() != '/') return std::nullopt;
  target = target.substr(0, target.find('#'));
  const size_t question = target.find('?');
  Target parsed;
  const std::string_view path =
      target.substr(1, question == std::string_view::npos ? std::string_view::npos : question - 1);
  const bool path_is_good =
      split(path, '/', [&](std::string_view part) { return add_segment(part, parsed.segments); });
  if (!path_is_good) return std::nullopt;
  // "/api/" is "/api".
  if (parsed.segments.back().empty()) parsed.segments.pop_back();
  if (question == std::string_view::npos) return parsed;
  const bool query_is_good = split(target.substr(question + 1), '&', [&](std::string_view part) {
    return add_parameter(part, parsed.query);
  });
  if (!query_is_good) return std::nullopt;
  return parsed;
}

bool accepts_gzip(const Request& request) {
  const std::string* field = request.field("accept-encoding");
  if (field == nullptr) return false;
  bool accepts = false;
  split(*field, ',', [&](std::string_view part) {
    const size_t semicolon = part.find(';');
    const std::string_view coding = trimmed(part.substr(0, semicolon));
    const std::string_view weight =
        semicolon == std::string_view::npos ? "" : trimmed(part.substr(semicolon + 1));
    const bool refused =
        weight == "q=0" || weight == "q=0.0" || weight == "q=0.00" || weight == "q=0.000";
    if (coding == "gzip" || coding == "*") accepts = !refused;
    return coding != "gzip";  // which is said by name counts before "*"
  });
  return accepts;
}

std::string_view reason_of(int status) {
  constexpr std::array<std::pair<int, std::string_view>, 21> kReasons = {
      {{200, "OK"},
       {204, "No Content"},
       {303, "See Other"},
       {304, "Not Modified"},
       {400, "Bad Request"},
       {401, "Unauthorized"},
       {403, "Forbidden"},
       {404, "Not Found"},
       {405, "Method Not Allowed"},
       {408, "Request Timeout"},
       {409, "Conflict"},
       {411, "Length Required"},
       {413, "Content Too Large"},
       {415, "Unsupported Media Type"},
       {421, "Misdirected Request"},
       {429, "Too Many Requests"},
       {431, "Request Header Fields Too Large"},
       {500, "Internal Server Error"},
       {501, "Not Implemented"},
       {503, "Service Unavailable"},
       {504, "Gateway Timeout"}}};
  for (const auto& [number, reason] : kReasons) {
    if (number == status) return reason;
  }
  return "Unknown";
}

std::string head_of(const Response& response, std::optional<size_t> length, bool keep_alive) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_of(response.status));
  for (const auto& [name, value] : response.fields) {
    const bool named = !name.empty() && name.find_first_of(": \t") == std::string::npos;
    if (named && fits_on_line(name) && fits_on_line(value)) {
      head.append(name).append(": ").append(value).append("\r\n");
    }
  }
  if (length.has_value()) head += fmt::format("Content-Length: {}\r\n", *length);
  head.append("Connection: ").append(keep_alive ? "keep-alive" : "close").append("\r\n\r\n");
  return head;
}

}  // namespace tessera::http
