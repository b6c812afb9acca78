#include "http/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text/printable.h"

namespace tessera::http {
namespace {

constexpr size_t kShortestToken = 16, kLongestToken = 256;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// A dotted address of 127/8, each part written in full: browsers send it so.
bool is_loopback_address(std::string_view name) {
  int parts = 0;
  while (true) {
    const size_t end = name.find('.');
    const std::string_view part = name.substr(0, end);
    unsigned value = 256;
    const char* const last = part.data() + part.size();
    const auto [at, error] = std::from_chars(part.data(), last, value);
    if (part.empty() || part.size() > 3 || error != std::errc() || at != last || value > 255) {
      return false;
    }
    if (parts == 0 && part != "127") return false;
    ++parts;
    if (end == std::string_view::npos) return parts == 4;
    name.remove_prefix(end + 1);
  }
}

std::string_view cookie_of(const Request& request, std::string_view name) {
  for (const auto& [field, value] : request.fields) {
    if (field != "cookie") continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(';'), rest.size());
      std::string_view pair = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      while (pair.starts_with(' ')) pair.remove_prefix(1);
      if (pair.starts_with(name) && pair.substr(name.size()).starts_with('=')) {
        return pair.substr(name.size() + 1);
      }
    }
  }
  return "";
}

// Browsers share cookies between the ports of a host: several servers must not take each other's.
std::string cookie_name(const Request& request, const AccessRules& rules) {
  return fmt::format("{}_{}", rules.cookie_name, request.port);
}

bool has_token(const Request& request, const AccessRules& rules) {
  constexpr std::string_view kBearer = "Bearer ";
  if (const std::string* field = request.field("authorization");
      field != nullptr && field->starts_with(kBearer) &&
      equal_in_constant_time(std::string_view(*field).substr(kBearer.size()), rules.token)) {
    return true;
  }
  return equal_in_constant_time(cookie_of(request, cookie_name(request, rules)), rules.token);
}

Response without_token(const Request& request, const AccessRules& rules) {
  Response response = Response::text(303, "text/plain; charset=utf-8", "");
  // Relative, so that it also holds behind a proxy that adds a prefix.
  response.fields.emplace_back("Location", "./");
  response.fields.emplace_back("Set-Cookie", fmt::format("{}={}; Path=/; HttpOnly; SameSite=Lax",
                                                         cookie_name(request, rules), rules.token));
  return response;
}

}  // namespace

bool is_loopback_host(std::string_view host, uint16_t port) {
  const size_t name_end = host.starts_with('[') ? host.find(']') : 0;
  if (name_end == std::string_view::npos) return false;
  const size_t colon = host.find(':', name_end);
  const std::string name = lower_case(host.substr(0, colon));
  const std::string_view number = colon == std::string_view::npos ? "80" : host.substr(colon + 1);
  if (number != std::to_string(port)) return false;
  return name == "localhost" || name == "[::1]" || is_loopback_address(name);
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

void require_usable_token(std::string_view token) {
  const auto is_good = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.' || c == '~';
  };
  require_config(token.size() >= kShortestToken && token.size() <= kLongestToken,
                 "the token has {} characters: give {} to {}, such as the output of "
                 "`openssl rand -hex 16`",
                 token.size(), kShortestToken, kLongestToken);
  require_config(std::all_of(token.begin(), token.end(), is_good),
                 "the token has characters other than letters, digits, '-', '_', '.' and '~': it "
                 "stands in a link");
}

std::optional<Response> refusal_of(const Request& request, const AccessRules& rules) {
  const std::string* host = request.field("host");
  const auto hosts = std::count_if(request.fields.begin(), request.fields.end(),
                                   [](const auto& field) { return field.first == "host"; });
  if (host == nullptr || hosts != 1) {
    return Response::error(400, "bad_request", "a request needs one Host field");
  }
  if (rules.loopback_only && !is_loopback_host(*host, request.port)) {
    return Response::error(
        421, "forbidden_host",
        fmt::format("this server answers to localhost:{0} and 127.0.0.1:{0}, not to '{1}': open it "
                    "under that name, and forward the same port (ssh -L {0}:localhost:{0})",
                    request.port, shortened(*host, 80)));
  }
  if (rules.token.empty()) return std::nullopt;
  const auto given = request.query.find("token");
  if (given != request.query.end() && equal_in_constant_time(given->second, rules.token)) {
    if (request.segments.empty()) return without_token(request, rules);
    return std::nullopt;
  }
  if (has_token(request, rules)) return std::nullopt;
  Response refused = Response::error(
      401, "unauthorized",
      "open the link that `tessera studio` printed: it ends in ?token= and the token");
  refused.fields.emplace_back("WWW-Authenticate", "Bearer");
  return refused;
}

}  // namespace tessera::http
