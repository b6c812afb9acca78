#include "serve/api/request_access.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/printable.h"
#include "base/text/text.h"
#include "http/access.h"
#include "serve/api/api_error.h"

namespace tessera::serve {
namespace {

// Browsers say of which page a request is; a page of another site must not spend our time. It
// cannot read the answer, but a simple POST would reach us all the same.
bool is_foreign_origin(const http::Request& request, const std::string& host) {
  const std::string* origin = request.field("origin");
  if (origin == nullptr) return false;
  const std::string said = lower_case(*origin);
  const std::string own = lower_case(host);
  return said != "http://" + own && said != "https://" + own;
}

}  // namespace

void require_usable_key(const std::string& key) {
  try {
    http::require_usable_token(key);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("the API key cannot be used: {}", error.what()));
  }
}

std::optional<http::Response> refusal_of(const http::Request& request,
                                         const RequestAccess& access) {
  const std::string* host = request.field("host");
  const auto hosts = std::count_if(request.fields.begin(), request.fields.end(),
                                   [](const auto& field) { return field.first == "host"; });
  if (host == nullptr || hosts != 1) {
    return write_api_error(400, "bad_request", "a request needs one Host field");
  }
  if (access.loopback_only && !http::is_loopback_host(*host, request.port)) {
    return write_api_error(
        421, "forbidden_host",
        fmt::format(
            "this server answers to localhost:{0} and 127.0.0.1:{0}, not to '{1}': ask under "
            "that name, or start it with --host",
            request.port, shortened(*host, 80)));
  }
  if (is_foreign_origin(request, *host)) {
    return write_api_error(403, "forbidden_origin",
                           fmt::format("pages of '{}' may not ask this server",
                                       shortened(*request.field("origin"), 80)));
  }
  if (access.api_key.empty()) return std::nullopt;
  const http::AccessRules rules{
      .loopback_only = false, .token = access.api_key, .cookie_name = "tessera_serve"};
  auto refused = http::refusal_of(request, rules);
  if (!refused.has_value() || refused->status != 401) return refused;
  return ApiError(401, "invalid_api_key", "",
                  request.field("authorization") == nullptr
                      ? "this server wants its API key: send it as \"Authorization: Bearer KEY\""
                      : "the API key is not this server's")
      .response();
}

}  // namespace tessera::serve
